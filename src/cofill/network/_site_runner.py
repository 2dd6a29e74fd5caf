"""One site's end of the network driver, without the engine that carries the messages.

It runs the steps of the in-process driver over the parties that live here, one step at a time when
it is told to. What a step wants to send is encoded and sealed, goes through this site's gate into
its ledger on disk, is kept with the parties' new state, and only then handed out: a step that is
asked for again hands out the very same messages, so that nothing is released or charged twice. A
step that fails leaves the parties as they were. The coordinator's own party is run like a site's.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from cofill.errors import DataError, SettingError, StoreError
from cofill.files import new_folder
from cofill.network._account import SiteAccount
from cofill.network._config import SiteConfig
from cofill.network._faults import RefusedMessageError, RefusedOrderError
from cofill.network._identity import Identity
from cofill.network._messages import Message, message_at, read_message, size_of, write_message_at
from cofill.network._order import Schedule
from cofill.network._party_state import PartyState
from cofill.network._policy_check import judge_order
from cofill.network._site_tables import read_people, read_site_views, require_common_categories
from cofill.privacy import (
    Gate,
    Ledger,
    LedgerEntry,
    MessageAddress,
    Release,
    decode_releases,
    release_buffers,
)
from cofill.protocol import COORDINATOR, LocalData, PartyFolder, check_sender, digest_views
from cofill.views import Source, write_table

Messages = Mapping[tuple[int, str], Message]
"""Sealed messages for a machine, by the step they were sent in and their sender."""


class SiteRunner:
    """A site in one run: its parties, its gate, its files.

    ``config`` is what the site brings and allows, None for the coordinator's own party; ``home``
    the folder in which the site keeps its ledger and its runs; ``submitter`` who signed the order.
    """

    def __init__(
        self,
        schedule: Schedule,
        identity: Identity,
        config: SiteConfig | None,
        home: Path,
        submitter: str = "",
    ) -> None:
        self.schedule, self.identity, self.config = schedule, identity, config
        self.protocol = schedule.protocol
        self.home = PartyFolder(home)
        self.folder = self.home.run(schedule.order.run)
        self.state = PartyState(self.folder)
        self.limit = schedule.federation.limits.message_bytes
        if config is not None:
            self.limit = min(self.limit, config.policy.message_bytes)
            judge_order(schedule, config, self._account(config), self.name, submitter)
        self.parties: dict[str, Any] = {}
        self.local: list[Release] = []
        self.sent: dict[str, Message] = {}
        self.notes: list[str] = []
        self.done = -1
        self._start()

    @property
    def name(self) -> str:
        """The site's name, or the coordinator's."""
        return self.identity.name

    def _start(self) -> None:
        """Make the parties, or take them up where they were kept."""
        run, limits = self.schedule.order.run, self.schedule.federation.limits
        self.home.forget_runs(limits.resume_days, but=run)
        self.folder.make()
        self.data: LocalData | None = None
        if self.config is not None:
            federation, keys = self.schedule.federation, self.identity.others
            rule = self.config.policy.experiments[self.schedule.order.experiment]
            self.data = LocalData(
                self.name,
                read_site_views(self.config, federation, rule.columns),
                read_people(self.config, federation),
                self.identity.sign,
                {name: keys[name].sign for name in federation.names if name in keys},
                run,
                self.config.policy.participants,
                rule.informs,
            )
            plain, rules = self.protocol.demands.plain, self.config.policy.spending.allowances
            if "columns" in plain:
                # Before any step: the first of them tells the others of columns and categories.
                shared, agreed = self.protocol.members.shared_views, federation.categories
                described = {n: v for n, v in self.data.views.items() if n in shared}
                require_common_categories(described, rules["columns"].people, agreed)
        self._digests = {} if self.data is None else digest_views(self.data.views)
        if self.state.exists:
            self._resume()
        elif self.data is None:
            self.parties = {COORDINATOR: self.protocol.start_coordinator()}
        else:
            self.parties = self.protocol.start_site(self.data)

    def _resume(self) -> None:
        run = self.schedule.order.run
        try:
            state = self.state.read()
            if state["views"] != self._digests:
                raise StoreError(
                    f"the rows of site {self.name!r} have changed since run {run} began, so it "
                    "cannot go on; start a new run"
                )
            self.done = state["done"]
            self.sent = dict(state["sent"])
            self.notes = list(state["notes"])
            self.parties = {
                name: self.protocol.restore_party(name, content, self.data)
                for name, content in state["parties"].items()
            }
            self.local = list(state["local"])
        except (KeyError, TypeError) as error:
            raise StoreError(
                f"what site {self.name!r} kept of run {run} is damaged ({type(error).__name__}); "
                "start a new run"
            ) from None

    # --- acting -------------------------------------------------------------------------------

    def act(self, number: int, messages: Messages) -> dict[str, Message]:
        """Run a step and return a sealed message for everyone who is owed one."""
        if not 0 <= number <= self.schedule.report or self.name not in self.schedule.actors(number):
            raise SettingError(f"step {number} is no step of site {self.name!r}; refused")
        if number <= self.done:
            return self._sent_messages(number)
        self._require_earlier_steps(number)
        before = dict(self.parties), list(self.local), list(self.notes)
        try:
            outbox = self._run(number, messages)
            # Sealed first: what is too large to be sent must not be paid for.
            sealed, content = self._seal(outbox, number)
            self._pass_gate(outbox, number, content)
            self._keep(number, sealed)
        except BaseException:
            self.parties, self.local, self.notes = before
            self.state.drop_messages()
            raise
        return self._sent_messages(number)

    def _require_earlier_steps(self, number: int) -> None:
        """Raise unless every step that this site must not have missed is done."""
        earlier = [k for k in range(number) if self.name in self.schedule.actors(k)]
        missed = [k for k in earlier if k > self.done and not self.protocol.may_be_missed(k)]
        if missed and (self.name != COORDINATOR or not self.schedule.is_star):
            raise StoreError(
                f"site {self.name!r} has not done step {missed[0]} "
                f"({self.schedule.name(missed[0])}) of this run and cannot go on with step "
                f"{number}; start a new run"
            )

    def _run(self, number: int, messages: Messages) -> list[Release]:
        """Run a step, or write the results, and return what is to leave."""
        started = time.monotonic()
        if number == self.schedule.report:
            outbox = self._report()
        else:
            try:
                arrived, content = self._open(messages, number)
            except DataError as error:
                raise RefusedMessageError(str(error)) from None
            outbox = self._step(number, arrived)
            common = [release for release in arrived if release.sender == COORDINATOR]
            if self.config is not None and common:
                # An audit of updates needs the model that each of them changed.
                whole = None if content is None else [content]
                self.folder.received.write(number, self.schedule.name(number), common, whole)
        if self.config is not None:  # the run's coordinator keeps times of its own party
            seconds = time.monotonic() - started
            self.folder.add_time(number, self.schedule.name(number), seconds)
        return outbox

    def _open(self, messages: Messages, number: int) -> tuple[list[Release], memoryview | None]:
        """Return the releases that have arrived, in the order of the in-process driver.

        Beside them the coordinator's as bytes, where they came in one message.
        """
        due = self.schedule.possible_messages(number, self.name, self.done)
        missing = sorted(
            sender
            for k, sender in due
            if (k, sender) not in messages and not self.protocol.is_optional(k)
        )
        if set(messages) - due or (missing and not self.schedule.is_star):
            what = f"no message from {', '.join(missing)}" if missing else "a message too many"
            raise DataError(
                f"site {self.name!r} got {what} before step {number} "
                f"({self.schedule.name(number)}); refused"
            )
        order = {name: k for k, name in enumerate([*self.protocol.party_sites, COORDINATOR])}
        arrived: list[tuple[int, int, Release]] = []
        common: list[memoryview] = []
        with _workers() as pool:
            opening = {key: pool.submit(self._releases, *key, messages[key]) for key in messages}
        for step, sender in sorted(messages):
            try:
                content, releases = opening.pop((step, sender)).result()
                common += [content] if sender == COORDINATOR else []
            except DataError as error:
                if self.name != COORDINATOR or not self.protocol.may_lack_sites(step):
                    raise
                self.notes.append(f"step {step} ({self.schedule.name(step)}): {error}; left out")
                continue
            arrived += [(step, order[release.sender], release) for release in releases]
        arrived += [(self.done, order[release.sender], release) for release in self.local]
        # Sums of floats depend on their order, and results not on whose message comes first.
        arrived.sort(key=lambda item: item[:2])
        return [r for *_, r in arrived], common[0] if len(common) == 1 else None

    def _releases(
        self, step: int, sender: str, message: Message
    ) -> tuple[memoryview, list[Release]]:
        """Open a message, and refuse what its sender may not send here."""
        address = MessageAddress(self.schedule.order.run, step, sender, self.name)
        content = read_message(message, address, self.identity, limit=self.limit)
        releases = decode_releases(content, sender)
        for release in releases:
            if self._site_of(release.sender) != sender:
                raise DataError(f"site {sender!r} may not send as {release.sender!r}; refused")
            if release.receiver not in self.parties:
                raise DataError(
                    f"site {sender!r} sent a release for {release.receiver!r}, which is not at "
                    f"site {self.name!r}; refused"
                )
        return content, releases

    def _site_of(self, party: str) -> str | None:
        return COORDINATOR if party == COORDINATOR else self.protocol.party_sites.get(party)

    def _step(self, number: int, arrived: Sequence[Release]) -> list[Release]:
        step = self.schedule.steps[number]
        names = list(self.parties)
        inboxes = [tuple(r for r in arrived if r.receiver == name) for name in names]
        results = step.run([self.parties[n] for n in names], inboxes, lambda _: None)
        everybody = (*self.protocol.party_sites, COORDINATOR)
        outbox: list[Release] = []
        self.local = []
        for name, (party, sent) in zip(names, results, strict=True):
            self.parties[name] = party
            for release in sent:
                check_sender(release, name, everybody, step.name)
                stays = self._site_of(release.receiver) == self.name
                (self.local if stays else outbox).append(release)
        return outbox

    def _report(self) -> list[Release]:
        """Write what the parties have produced and return figures for the coordinator."""
        config, data = self.config, self.data
        assert config is not None  # noqa: S101
        assert data is not None  # noqa: S101
        target = config.results / self.schedule.order.run
        figures: list[Release] = []
        # Results that exist already were written before a crash, by this very run.
        with (
            tempfile.TemporaryDirectory() as scratch,
            (
                nullcontext(Path(scratch)) if target.exists() else new_folder(target, private=True)
            ) as folder,
        ):
            for name, party in self.parties.items():
                held, _ = self.protocol.members.parties.get(name, (name, ""))
                view = config.views.get(held) or next(iter(config.views.values()))
                ending = Source(view.source).result_ending
                result = self.protocol.finish(party, data)
                for stem, table in result.tables.items():
                    write_table(table, folder / f"{stem}{ending}", config.formulas)
                for file_name, text in result.texts.items():
                    (folder / file_name).write_text(text, encoding="utf-8")
                figures += [] if result.figures is None else [result.figures]
        # A report is a courtesy: a run does not fail because a site may not give one.
        with self._open_gate() as gate:
            step = self.schedule.name(self.schedule.report)
            return [release for release in figures if gate.refusal(release, step) is None]

    # --- what leaves --------------------------------------------------------------------------

    def _pass_gate(
        self, outbox: Sequence[Release], number: int, content: Sequence[memoryview] | None
    ) -> None:
        """Take every release through this site's gate into the ledger on disk, before it leaves.

        ``content`` are the releases as buffers, where they are all for one receiver.
        """
        if not outbox:
            return
        label = f"{self.schedule.name(number)} (run {self.schedule.order.run})"
        with self._open_gate() as gate:
            paid = self._paid_attempt(gate.ledger, number, label)
            for release in outbox:
                if paid[_price(release)]:
                    paid[_price(release)] -= 1
                    continue
                try:
                    gate.pass_on(release, label)
                except SettingError as error:
                    raise RefusedOrderError(str(error)) from None
        if self.config is not None:
            self.folder.sent.write(number, self.schedule.name(number), outbox, content)
            for party in self.parties.values():
                self.folder.sent.keep_keys(self.protocol.audit_keys(party))

    def _paid_attempt(self, ledger: Ledger, number: int, label: str) -> Counter[Any]:
        """Return what an attempt at a step has paid for that was cut off before anything left.

        Nothing is handed out before the state says that the step is done, and it says that it is
        not. The note of the attempt goes with the state: a step whose state was forgotten, which
        may have answered, is paid for again.
        """
        attempt = self.folder.read_attempt()
        if attempt is None or attempt["step"] != number:
            self.folder.write_attempt({"step": number, "entries": len(ledger)})
            return Counter()
        entries = list(ledger)[attempt["entries"] :]
        return Counter(_price(entry) for entry in entries if entry.step == label)

    def _account(self, config: SiteConfig) -> SiteAccount:
        return SiteAccount(config.account_folder, self.home)

    @contextmanager
    def _open_gate(self) -> Iterator[Gate]:
        """Give the gate of this site's policy; the coordinator, which has no rows, has no budget.

        What has passed is in the ledger on disk when the block ends.
        """
        if self.config is None:
            with self.home.open_ledger() as ledger:
                yield Gate(ledger)
            return
        budgets = dict.fromkeys(self.parties, self.config.policy.spending)
        run, homes = self.schedule.order.run, self.protocol.party_sites
        with self._account(self.config).open() as (ledger, elsewhere):
            yield Gate(ledger, budgets, is_joint=True, elsewhere=elsewhere, run=run, homes=homes)

    def _seal(
        self, outbox: Sequence[Release], number: int
    ) -> tuple[dict[str, Message], list[memoryview] | None]:
        """Return a message for every receiver, and all releases as buffers where one gets them."""
        sealed: dict[str, Message] = {}
        whole = None
        with _workers() as pool:
            writing = {}
            for receiver in self.schedule.receivers(number, self.name):
                releases = [r for r in outbox if self._site_of(r.receiver) == receiver]
                if self.name == COORDINATOR and self.schedule.is_star and not releases:
                    continue  # it knows anyway whom it has nothing to say to
                content = release_buffers(releases)
                whole = content if len(releases) == len(outbox) else whole
                address = MessageAddress(self.schedule.order.run, number, self.name, receiver)
                keys = self.identity, self.limit
                path = self.state.new_message()
                writing[receiver] = pool.submit(write_message_at, path, content, address, *keys)
            sealed |= {receiver: written.result() for receiver, written in writing.items()}
        total, most = sum(map(size_of, sealed.values())), 2 * self.limit
        if self.name != COORDINATOR and total > most:
            raise DataError(
                f"the messages of site {self.name!r} in this step would have {total:,} bytes "
                f"together, more than {most:,}; raise limits.message_megabytes in federation.toml"
            )
        stray = [r for r in outbox if self._site_of(r.receiver) not in sealed]
        if stray:
            raise SettingError(
                f"step {self.schedule.name(number)!r}: {stray[0].receiver!r} takes no part in it"
            )
        return sealed, whole

    # --- what stays ---------------------------------------------------------------------------

    def _keep(self, number: int, sealed: Mapping[str, Message]) -> None:
        """Put messages and parties on disk; the state's rename is the moment the step is done."""
        # What others sent is kept no longer than the run needs it.
        parties = {} if number == self.schedule.report else self.parties
        sent = dict(sealed)
        if self.name == COORDINATOR:
            # They are forwarded from these files; a state that held them too would be large.
            sync = not self.schedule.is_star
            for receiver, message in sealed.items():
                self.folder.write_message(number, self.name, receiver, message, sync=sync)
            self.state.drop_messages()
            sent = {}
        state = {
            "done": number,
            "views": self._digests,
            "local": self.local,
            "parties": {name: self.protocol.state_of(p) for name, p in parties.items()},
            "sent": sent,
            "notes": self.notes,
        }
        self.state.write(state)
        self.folder.attempt.unlink(missing_ok=True)
        self.done, self.parties, self.sent = number, parties, sent

    def _sent_messages(self, number: int) -> dict[str, Message]:
        if number != self.done:
            raise StoreError(
                f"site {self.name!r} has gone on to step {self.done} and no longer has what it "
                f"sent in step {number}; start a new run"
            )
        if self.name != COORDINATOR:
            return self.sent
        names = self.schedule.federation.names
        paths = {name: self.folder.message(number, self.name, name) for name in names}
        return {name: message_at(path) for name, path in paths.items() if path.exists()}


def _workers() -> ThreadPoolExecutor:
    """Return threads to seal and open messages in: most of it is done outside of Python's lock."""
    return ThreadPoolExecutor(min(4, os.cpu_count() or 1), "cofill-seal")


def _price(release: Release | LedgerEntry) -> tuple[Any, ...]:
    """Return whose a release is, to whom, and what it costs, as its ledger's entry has it."""
    return release.kind, release.sender, release.receiver, release.event
