"""What is told to the world, and the files, pages and sentences that say it."""
