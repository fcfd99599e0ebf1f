"""The cluster level: jobs that come and go, who runs when and where, what fails. A job is one thing here, not packets.

Times are whole microseconds (`_us`, 292,000 years in 63 bits), work is the time that it takes at speed 1.
"""
