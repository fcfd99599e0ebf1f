"""Messages, or their rests, that are not simulated: what is said of each, a row of int64."""

(
    FLYING_FLOW,
    FLYING_ID,
    FLYING_SIZE,  # bytes that are left
    FLYING_END,  # its last byte's end
    FLYING_BEGIN_PS,  # when it had come so far
    FLYING_DELIVERED_PS,
    FLYING_ENDED_PS,
    FLYING_MARKED,
    FLYING_FREE_PS,  # when its last byte leaves
) = range(9)
N_FLYING_COLUMN = 9
