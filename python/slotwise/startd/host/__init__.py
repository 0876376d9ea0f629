"""All slots of a host together: claims, dynamic slots, draining, broken slots, and the effects of transitions."""
