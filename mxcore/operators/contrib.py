"""Records of the contrib operators."""
