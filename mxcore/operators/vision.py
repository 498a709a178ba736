"""Records of the vision operators."""
