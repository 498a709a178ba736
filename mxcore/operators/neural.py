"""Records of the neural operators."""
