"""Records of the update operators."""
