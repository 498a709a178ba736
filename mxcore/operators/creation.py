"""Records of the creation operators."""
