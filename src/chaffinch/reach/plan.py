from chaffinch.reach.plans import *  # noqa: F403
