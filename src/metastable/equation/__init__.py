"""What moves: weights, scores, positions, masks, normalisation, geometry, blocks, and the one equation made of them."""
