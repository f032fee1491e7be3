"""What a shuffler of a reach does: filters in, flipped and permuted columns out."""
