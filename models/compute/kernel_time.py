"""How long kernels take: HeteroSim's classes (Table 1), bounded transfer to unfitted GPUs (equation 5).

T = gamma F / FLOPS + gamma_m M / bandwidth + delta. Elementwise kernels, norms and the optimizer have no F that counts.
Of matrix products and attention M counts, too, as an own term and not as the other side of a roofline: what a product
reads first and writes last, nothing hides. On 183 products measured on an A100 and 514 on a B200 (SimuMax's tables)
this form has a root mean square error of 7 and 15 %, the roofline's maximum 8 and 16 %, products of many small matrices
9 and 17 % against 10 and 38 %; counting whole waves of tiles does not help. One delta for all kernels.
"""

from models.compute.devices import Device
from models.compute.operators import Kernel

PS_PER_S = 10**12


def kernel_ps(kernel: Kernel, device: Device) -> int:
    """Time of one kernel on a GPU, rounded up to 1 ps."""
    fit = device.fit
    memory_ps = fit.memory_gamma * kernel.hbm_bytes / device.hbm_bytes_per_s * PS_PER_S
    gamma = {"gemm": fit.gemm_gamma, "attention": fit.attention_gamma}.get(kernel.kind, 0.0)
    work_ps = gamma * kernel.flops / device.peak(kernel.dtype) * PS_PER_S
    return int(work_ps + memory_ps) + 1 + kernel.n_launch * fit.launch_ps
