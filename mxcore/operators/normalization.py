"""Records of the normalization operators."""
