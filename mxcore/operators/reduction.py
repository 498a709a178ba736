"""Records of the reduction operators."""
