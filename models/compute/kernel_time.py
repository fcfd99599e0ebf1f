"""How long kernels take: HeteroSim's classes (Table 1), measured times first, bounded transfer to unfitted GPUs.

T = gamma F / FLOPS + gamma_m M / bandwidth + delta. Elementwise kernels, norms and the optimizer have no F that counts.
Of matrix products and attention M counts, too, as an own term and not as the other side of a roofline: what a product
reads first and writes last, nothing hides. Against tables of measured products this is closer than the roofline's
maximum, above all for many small matrices, and counting whole waves of tiles does not help. One delta for all kernels.

Bounded transfer (equation 5): T(d) = max(T(d) with the constants of no particular GPU, lambda T(d*) rho), where d* is
the fitted reference and rho the ratio of the peaks that bound the class: FLOPS for products and attention, bandwidth
for the rest; lambda 0 is no bound. So a GPU that is twice as fast on paper is at most twice as fast in every class.
"""

from models.compute.devices import Device
from models.compute.operators import Kernel
from pdes.units import PS_PER_S

BY_FLOPS = ("gemm", "attention")


LEAST_LEFT_FRAC = 0.01


def left_frac(loss_frac: float) -> float:
    """Of a GPU's speed, what computing has of it beside an exchange."""
    return max(1 - loss_frac, LEAST_LEFT_FRAC)


def kernel_ps(kernel: Kernel, device: Device) -> int:
    """Time of one kernel on a GPU, ps."""
    if device.table is not None and (measured_ps := device.table.time_ps(kernel)) is not None:
        return measured_ps
    time_ps = _modelled_ps(kernel, device)
    reference = device.reference
    if reference is None or device.fit.rows or not device.margin:
        return time_ps
    return max(time_ps, int(device.margin * _modelled_ps(kernel, reference) * time_ratio(kernel, reference, device)))


def time_ratio(kernel: Kernel, reference: Device, device: Device) -> float:
    """rho: the least time on `device` over that on `reference`, by the data sheets and the kernel's class."""
    if kernel.kind in BY_FLOPS:
        return reference.peak(kernel.dtype) / device.peak(kernel.dtype)
    return reference.hbm_bytes_per_s / device.hbm_bytes_per_s


def _modelled_ps(kernel: Kernel, device: Device) -> int:
    fit = device.fit
    gemm_gamma = fit.fp8_gamma if kernel.dtype == "fp8" else fit.gemm_gamma
    gamma = {"gemm": gemm_gamma, "attention": fit.attention_gamma}.get(kernel.kind, 0.0)
    work_s = gamma * kernel.flops / device.peak(kernel.dtype)
    memory_s = fit.memory_gamma * kernel.hbm_bytes / device.hbm_bytes_per_s
    return int((work_s + memory_s) * PS_PER_S) + 1 + kernel.n_launch * fit.launch_ps
