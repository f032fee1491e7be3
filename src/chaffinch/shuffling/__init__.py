"""Break the link between report and sender: a uniform order, and no batch that is too small."""
