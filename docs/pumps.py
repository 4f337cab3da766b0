"""Write docs/pumps.csv: ten pumps, read every hour, whose sensors fail: `python docs/pumps.py FILE`."""

from __future__ import annotations

import csv
import random
import sys
from datetime import datetime, timedelta
from pathlib import Path

PUMPS, HOURS = 10, 400
COLUMNS = ("time", "pump", "pressure", "vibration", "temperature", "current", "repair")
SENSORS = ("pressure", "vibration", "temperature", "current")


def readings(seed: int = 4) -> list[list[str]]:
    """One line per pump and hour. A pump that is worn needs a repair within the day, and then is as new."""
    random.seed(seed)
    start = datetime(2026, 3, 1)
    wear = [random.uniform(0, 0.7) for _ in range(PUMPS)]
    speed = [random.uniform(0.004, 0.016) for _ in range(PUMPS)]
    usual = [random.uniform(2.0, 4.0) for _ in range(PUMPS)]  # how much this pump vibrates when it is new
    silent = dict.fromkeys([(pump, sensor) for pump in range(PUMPS) for sensor in SENSORS], 0)
    lines = []
    for hour in range(HOURS):
        at = start + timedelta(hours=hour)
        air = 18 + 6 * (1 - abs(at.hour - 14) / 12)
        for pump in range(PUMPS):
            wear[pump] += speed[pump] * random.uniform(0, 2)
            load = random.gauss(1, 0.2)
            values = {
                "pressure": 6 * load - 1.5 * wear[pump] + random.gauss(0, 0.3),
                "vibration": usual[pump] + 3 * wear[pump] ** 2 + random.gauss(0, 0.3),
                "temperature": air + 20 * load + 14 * wear[pump] + random.gauss(0, 2),
                "current": 11 * load + 2 * wear[pump] + random.gauss(0, 0.4),
            }
            for sensor in SENSORS:
                # A sensor that fails is silent for hours; vibration is mounted after two days.
                if silent[pump, sensor] == 0 and random.random() < 0.03:
                    silent[pump, sensor] = random.randint(2, 24)
                elif silent[pump, sensor]:
                    silent[pump, sensor] -= 1
                if silent[pump, sensor] or (sensor == "vibration" and hour < 48):
                    del values[sensor]
            worn = wear[pump] + random.gauss(0, 0.03) > 1
            cells = [f"{values[sensor]:.2f}" if sensor in values else "" for sensor in SENSORS]
            lines.append([f"{at:%Y-%m-%d %H:%M}", f"P-{pump + 1:02}", *cells, "yes" if worn else "no"])
            if wear[pump] > 1.25:
                wear[pump] = 0.0
    return lines


def main(path: Path) -> None:
    """Write the file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(readings())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
