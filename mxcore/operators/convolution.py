"""Records of the convolution operators."""
