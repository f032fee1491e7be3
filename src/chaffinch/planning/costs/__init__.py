"""What a collection costs: work, bytes and money, from units that were measured."""
