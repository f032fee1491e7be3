"""Clients in other languages: their own tests, and whole collections with them."""
