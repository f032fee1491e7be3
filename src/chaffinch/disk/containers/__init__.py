"""What Parquet and Arrow files say of their parts, read before any part is unpacked."""
