"""Records of the ordering operators."""
