"""Trains the network of `reading/ocr/line_direction.py` on pieces of lines that `bench/draw_line_pieces.py` has drawn.

    python bench/train_line_direction.py pieces.npz [more.npz …] [--epochs 12] [--to line_direction.onnx]

Needs PyTorch and `onnx`, which are no dependencies of Quire, and nothing of Quire. The pages of one seed of ten are
kept aside; the share of their pieces of lines that are told right is printed for each script. The seed of the weights
is fixed; the sums of another processor or another version of PyTorch differ in their last digits, and the weights with
them, so what a second run must reproduce are the printed shares. A run that was stopped goes on with its last epoch.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn

BATCH = 256
RATE = 2e-3
KEPT_ASIDE = 9
SCRIPTS = (
    *("latin", "cyrillic", "greek", "arabic", "urdu", "hebrew"),
    *("devanagari", "bengali", "tamil", "chinese", "japanese", "korean"),
)


class LineNetwork(nn.Module):
    """Scores a piece of a line: how clearly it is upright, upside down, and no line at all.

    One part sees the piece and the same piece turned by half a turn, so that both ways up are scored alike.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shapes = nn.Sequential(
            *self._layer(1, 12, 5, 2),
            nn.MaxPool2d(2),
            *self._layer(12, 32, 3, 1),
            nn.MaxPool2d((1, 2)),
            *self._layer(32, 48, 3, 1),
        )
        self.scores = nn.Sequential(nn.Linear(7 * 48, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 2))

    @staticmethod
    def _layer(inputs: int, outputs: int, side: int, step: int) -> tuple[nn.Module, ...]:
        return (
            nn.Conv2d(inputs, outputs, side, step, padding=side // 2),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        )

    def forward(self, pieces: torch.Tensor) -> torch.Tensor:
        both = torch.cat((pieces, pieces.flip(2, 3)))
        upright, none = self.scores(self.shapes(both).mean(3).flatten(1)).unbind(1)
        count = pieces.shape[0]
        return torch.stack((upright[:count], upright[count:], (none[:count] + none[count:]) / 2), 1)


def loaded(files: list[Path]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pieces, their ways (0 upright, 1 upside down, 2 on a side), seeds and scripts."""
    parts = [np.load(file) for file in files]
    pieces = np.concatenate([part["pieces"] for part in parts])
    ways = np.concatenate([part["ways"] for part in parts])
    return pieces, np.array((0, 2, 1, 2))[ways[:, 0]], ways[:, 1], ways[:, 2]


def spoilt(pieces: torch.Tensor, dice: torch.Generator) -> torch.Tensor:
    """The pieces with grain, another weight of tone, and moved by up to two pixels."""
    count = len(pieces)
    down, across = torch.randint(-2, 3, (2,), generator=dice).tolist()
    pieces = torch.roll(pieces, (down, across), (2, 3))
    power = torch.empty(count, 1, 1, 1).uniform_(0.6, 1.6, generator=dice)
    grain = torch.empty(count, 1, 1, 1).uniform_(0.0, 0.15, generator=dice)
    return pieces.clamp(1e-3, 1) ** power + grain * torch.randn(pieces.shape, generator=dice)


def trained(pieces: np.ndarray, ways: np.ndarray, epochs: int, state: Path) -> LineNetwork:
    torch.manual_seed(0)
    network = LineNetwork()
    batches = (len(pieces) + BATCH - 1) // BATCH
    optimiser = torch.optim.AdamW(network.parameters(), RATE, weight_decay=1e-2)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2 * RATE, total_steps=epochs * batches)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.03)
    kept = (network, optimiser, rates)
    done = 0
    if state.exists():
        done, *states = torch.load(state)
        for one, values in zip(kept, states, strict=True):
            one.load_state_dict(values)
    for epoch in range(done, epochs):
        dice = torch.Generator().manual_seed(epoch)
        total = 0.0
        for chosen in torch.randperm(len(pieces), generator=dice).split(BATCH):
            seen = torch.from_numpy(pieces[chosen.numpy()]).float()[:, None] / 255
            loss = loss_of(network(spoilt(seen, dice)), torch.from_numpy(ways[chosen.numpy()]))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            rates.step()
            total += float(loss.detach()) * len(chosen)
        print(f"epoch {epoch + 1}: loss {total / len(pieces):.4f}", flush=True)
        torch.save((epoch + 1, *(one.state_dict() for one in kept)), state)
    return network.eval()


def shares(network: LineNetwork, pieces: np.ndarray, ways: np.ndarray) -> np.ndarray:
    """For each piece, whether it is told right."""
    with torch.inference_mode():
        parts = torch.from_numpy(pieces).split(1024)
        found = torch.cat([network(part.float()[:, None] / 255).argmax(1) for part in parts])
    return found.numpy() == ways


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pieces", type=Path, nargs="+")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--to", type=Path, default=Path("line_direction.onnx"))
    asked = parser.parse_args()
    pieces, ways, seeds, scripts = loaded(asked.pieces)
    aside = seeds % 10 == KEPT_ASIDE
    network = trained(pieces[~aside], ways[~aside], asked.epochs, asked.to.with_suffix(".state"))
    for name, part in (("trained on", ~aside), ("kept aside", aside)):
        right = shares(network, pieces[part], ways[part])
        print(f"{name}: {part.sum()} pieces of lines, {100 * right.mean():.1f} % right")
    for number, script in enumerate(SCRIPTS):
        text = right[(scripts[aside] == number) & (ways[aside] < 2)]
        print(f"  {script}, upright or upside down: {100 * text.mean():.1f} % of {len(text)}")
    example = torch.zeros(2, 1, *pieces.shape[1:])
    axes = {"pieces": {0: "count"}, "scores": {0: "count"}}
    torch.onnx.export(
        network,
        (example,),
        asked.to,
        input_names=["pieces"],
        output_names=["scores"],
        dynamic_axes=axes,
        dynamo=False,
    )


if __name__ == "__main__":
    main()
