"""Every row of the course chapter on the limits of speculative decoding, computed and judged: `specdec chapter`."""
