"""One machine and a cluster at the same work: the same counts, and what each takes for them."""
