"""A prediction: how a message, or what is left of one, ends though its packets are withdrawn. One row of int64."""

(
    PREDICTED_FLOW,
    PREDICTED_ID,
    PREDICTED_SIZE,  # bytes that are left
    PREDICTED_END,  # its last byte's end
    PREDICTED_BEGIN_PS,  # when it had come so far
    PREDICTED_DELIVERED_PS,
    PREDICTED_ENDED_PS,
    PREDICTED_MARKED,
    PREDICTED_FREE_PS,  # when its last byte leaves
) = range(9)
N_PREDICTED_COLUMN = 9
