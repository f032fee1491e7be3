"""How an answer is protected: what a device sends, and what that makes of the view."""
