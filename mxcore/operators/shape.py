"""Records of the shape operators."""
