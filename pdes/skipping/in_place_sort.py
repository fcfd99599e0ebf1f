"""Heapsort: `values.sort()` in a kernel allocates, which kernels of the event loop cannot."""

from pdes.engine.jit import loop_kernel, step_kernel


@loop_kernel
def sort_in_place(values, n_value):
    """Sort the first n_value numbers of an array, ascending."""
    for i in range(n_value // 2 - 1, -1, -1):
        _sift_down(values, i, n_value)
    for end in range(n_value - 1, 0, -1):
        values[0], values[end] = values[end], values[0]
        _sift_down(values, 0, end)


@step_kernel
def _sift_down(values, i, n_value):
    """Move values[i] down until no child of it is greater; below it that holds already."""
    value = values[i]
    while 2 * i + 1 < n_value:
        child = 2 * i + 1
        if child + 1 < n_value and values[child] < values[child + 1]:
            child += 1
        if values[child] <= value:
            break
        values[i] = values[child]
        i = child
    values[i] = value
