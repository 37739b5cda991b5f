"""The networks of synthetic.py: residual networks for images, and one with many small tensors."""
import torch
from torch import nn

BLOCKS = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3), "resnet50": (3, 4, 6, 3),
          "resnet101": (3, 4, 23, 3), "resnet152": (3, 8, 36, 3)}
NAMES = sorted(BLOCKS) + ["many-small"]


def make(name):
    """Returns a network for batches of 3 x 224 x 224 (or smaller) images and 1,000 classes."""
    if name == "many-small":
        return ManySmall()
    block = Basic if name in ("resnet18", "resnet34") else Bottleneck
    return Residual(block, BLOCKS[name])


def convolution(n_in, n_out, width, stride=1):
    """Returns a normalised convolution that keeps the size, except for its stride."""
    return nn.Sequential(nn.Conv2d(n_in, n_out, width, stride, padding=width // 2, bias=False),
                         nn.BatchNorm2d(n_out))


class Block(nn.Module):
    """Adds the output of `body` to the input, and projects the input if the shapes differ."""

    def __init__(self, body, n_in, n_out, stride):
        super().__init__()
        self.body = body
        self.shortcut = nn.Identity()
        if stride != 1 or n_in != n_out:
            self.shortcut = convolution(n_in, n_out, 1, stride)

    def forward(self, images):
        """Returns the rectified sum."""
        return torch.relu(self.body(images) + self.shortcut(images))


class Basic(Block):
    """Two convolutions of width 3."""
    expansion = 1

    def __init__(self, n_in, n, stride):
        body = nn.Sequential(convolution(n_in, n, 3, stride), nn.ReLU(inplace=True), convolution(n, n, 3))
        super().__init__(body, n_in, n, stride)


class Bottleneck(Block):
    """A convolution of width 3 between two of width 1, to fewer channels and back."""
    expansion = 4

    def __init__(self, n_in, n, stride):
        body = nn.Sequential(convolution(n_in, n, 1), nn.ReLU(inplace=True),
                             convolution(n, n, 3, stride), nn.ReLU(inplace=True),
                             convolution(n, 4 * n, 1))
        super().__init__(body, n_in, 4 * n, stride)


class Residual(nn.Sequential):
    """The residual network of He and others, 2015: four stages of blocks."""

    def __init__(self, block, n_blocks):
        layers = [convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
        n_in = 64
        for stage, n in enumerate(n_blocks):
            for i in range(n):
                layers.append(block(n_in, 64 << stage, 2 if stage and i == 0 else 1))
                n_in = (64 << stage) * block.expansion
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_in, 1000))


class ManySmall(nn.Module):
    """A deep, narrow network: 800 parameters of at most 4 KiB, so that moving them is mostly overhead."""

    def __init__(self):
        super().__init__()
        self.inlet = nn.AdaptiveAvgPool2d(4)
        self.first = nn.Linear(48, 32)
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(398))
        self.last = nn.Linear(32, 1000)

    def forward(self, images):
        """Each layer adds a little to its input."""
        hidden = self.first(self.inlet(images).flatten(1))
        for layer in self.layers:
            hidden = hidden + 0.05 * torch.tanh(layer(hidden))
        return self.last(hidden)
