"""Records of the linalg operators."""
