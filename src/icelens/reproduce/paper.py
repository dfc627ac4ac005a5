"""Table 1 as printed in the paper: accuracy in percent, mean and standard deviation of 10 trials."""

from __future__ import annotations

DATA = {
    "mnist": "MNIST",
    "fashion-mnist": "FMNIST",
    "kmnist": "KMNIST",
    "svhn": "SVHN",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
}
METHODS = {
    "cross_entropy": "CCE",
    "hard_bootstrapping": "Bootstrapping",
    "adaptation": "Adaptation",
    "forward": "Forward",
    "dac": "DAC",
    "gce": "GCE",
    "ice_linear": "ICE-LIN",
    "ice_power": "ICE-POW",
}
ICE = {method: METHODS[method] for method in ("ice_linear", "ice_power")}
_ROWS = {
    "cross_entropy": "94.91(0.43) 85.05(0.52) 80.40(1.25) 71.50(1.68) 68.34(0.82) 47.09(0.65)",
    "hard_bootstrapping": "97.30(0.28) 87.24(0.36) 84.21(1.01) 76.62(0.97) 75.97(0.45) 49.56(0.42)",
    "adaptation": "96.27(0.41) 86.20(0.87) 81.38(2.07) 68.58(6.45) 63.95(5.94) 31.70(1.28)",
    "forward": "95.09(0.56) 85.51(0.45) 80.76(1.29) 74.43(6.42) 68.28(0.62) 47.92(0.31)",
    "dac": "96.60(0.47) 86.87(0.48) 82.77(0.74) 80.97(4.83) 71.55(0.34) 47.01(0.44)",
    "gce": "98.31(0.13) 88.76(0.26) 88.39(0.60) 75.03(0.98) 80.38(0.67) 55.64(0.40)",
    "ice_linear": "98.64(0.15) 89.41(0.18) 89.61(0.41) 77.51(0.75) 82.08(0.39) 55.30(0.47)",
    "ice_power": "98.60(0.09) 89.29(0.20) 89.21(0.53) 79.91(0.96) 82.14(0.44) 54.31(0.48)",
}


def _cell(text: str) -> tuple[float, float]:
    mean, deviation = text.rstrip(")").split("(")
    return float(mean), float(deviation)


TABLE1: dict[tuple[str, str], tuple[float, float]] = {
    (data, method): _cell(text)
    for method, row in _ROWS.items()
    for data, text in zip(DATA, row.split(), strict=True)
}
