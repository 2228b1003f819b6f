"""Spillway's command line: the only place where settings, commands and processes are wired together.

What a command does is in engine/commands.py.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from app import ctl, users_cli
from app.commandline import parser
from app.errors import AppError, PortError
from app.settings import ConsoleSettings
from control import logs
from control.errors import ControlError
from control.ports import Secrets
from engine import commands
from engine.errors import SettingError, SpillwayError
from engine.settings import TABLE, Setting, Settings, ports_of, show

EXIT_USER = commands.EXIT_USER
EXIT_INTERRUPTED = 130
UPKEEP_S = 60.0
PRIVATE = 0o077  # all that works on a data folder writes for its owner alone
STEADY_TRIGGER_S = 1.0  # of an engine that runs for weeks, where the setting says nothing


def settings_of(arguments: argparse.Namespace) -> Settings:
    """Settings from file, environment and --set."""
    overrides: dict[str, str] = {}
    for item in arguments.set:
        name, equals, value = item.partition("=")
        if not equals:
            raise SettingError(f"--set {item}: NAME=VALUE is needed")
        overrides[name.strip()] = value
    return Settings.load(overrides, file=arguments.settings)


@contextmanager
def umask(bits: int) -> Iterator[int]:
    """With these permissions kept from every new file; the bits of before."""
    before = os.umask(bits)
    try:
        yield before
    finally:
        os.umask(before)


def dispatch(arguments: argparse.Namespace) -> int:
    """Run the command; its exit code."""
    settings = settings_of(arguments)
    if arguments.command == "settings":
        print(show(settings))
        return 0
    if arguments.command in PROCESSES:
        with umask(PRIVATE) as before:
            given = argparse.Namespace(**vars(arguments), umask=before)
            return PROCESSES[arguments.command](given, settings)
    if arguments.command == "ctl":
        with umask(PRIVATE):
            return ctl.run(arguments, _data(arguments, settings))
    if arguments.command == "reproduce":
        return commands.reproduce(
            arguments.figures, show=arguments.list, long=arguments.long, out=arguments.out
        )
    if arguments.command == "demo":
        return commands.demo(master=arguments.master, settings=settings)
    if arguments.action == "check":
        return commands.check(arguments.files, secrets=_secrets(arguments, settings))
    if arguments.action == "tail":
        return commands.show_tail(arguments.file, rows=arguments.rows, follow=arguments.follow)
    return commands.run_queries(
        arguments.files,
        once=arguments.once,
        nodes=arguments.nodes,
        master=arguments.master,
        settings=settings,
        adaptation=commands.Adaptation(
            arguments.adapt, arguments.script, arguments.owed, arguments.report
        ),
        secrets=_secrets(arguments, settings),
    )


# -- the processes of `up` -----------------------------------------------------------------------------


def _data(arguments: argparse.Namespace, settings: Settings) -> Path:
    return Path(getattr(arguments, "data", None) or settings.data_dir).absolute()


def _secrets(arguments: argparse.Namespace, settings: Settings) -> Secrets:
    """Where named secrets are kept: as set, or in the data folder."""
    from db.secrets import FOLDER, SecretFolder

    return SecretFolder(Path(settings.secrets_dir or _data(arguments, settings) / FOLDER))


def up(arguments: argparse.Namespace, settings: Settings) -> int:
    """Console, control and engine, until Ctrl-C."""
    from app import locks
    from app.supervisor import Supervisor, stop_on_signals

    data, port = _data(arguments, settings), _port(arguments, settings)
    with locks.hold(data, "up"):
        _free(port)
        url = f"http://127.0.0.1:{port}"
        password = _prepare(data, url, demo=not arguments.no_demo, token_s=_token_s(settings))
        _webhooks_of_before(data, settings)
        supervisor = Supervisor(
            _children(arguments, data, port), data / "logs", _say, umask=arguments.umask
        )
        stop = threading.Event()
        stop_on_signals(stop)
        _say(f"console: {url}    logs: {data / 'logs'}    Ctrl-C stops everything")
        if password:
            _tell_first(data, password)
        supervisor.run(stop, _upkeep(data, url, _token_s(settings)))
    _say("stopped; start again to resume")
    return 0


def _tell_first(data: Path, password: str) -> None:
    """On a terminal; what goes into a file or a pipe may be read by others, so that says only where it is."""
    from app import firsts

    if sys.stdout.isatty():
        print(f"sign in as admin, password {password}   (shown only this once)", flush=True)
        return
    path = firsts.keep_first_password(data, password)
    print(f"sign in as admin; the first password is in {path}, for you alone to read", flush=True)


def _upkeep(data: Path, url: str, token_s: float) -> Callable[[], None]:
    """What `up` itself looks after, once a minute: this machine's token, and the file with the first password."""
    from app import firsts
    from control.errors import StoreError
    from db.open import open_store

    due_s = time.monotonic() + UPKEEP_S

    def look() -> None:
        nonlocal due_s
        if time.monotonic() < due_s:
            return
        due_s = time.monotonic() + UPKEEP_S
        try:
            store = open_store(data)
            try:
                firsts.local_token(store, data / "ctl.json", url, time.time(), token_s)
                firsts.drop_first_password(store, data)
            finally:
                store.close()
        except (StoreError, OSError) as error:
            _say(f"{error}; looked at again in {UPKEEP_S:.0f} s")

    return look


def _token_s(settings: Settings) -> float:
    return settings.token_days * 86_400.0


def _prepare(data: Path, url: str, *, demo: bool, token_s: float) -> str:
    """The store at this version, and what a first start makes; the admin's password if it is new."""
    from app import firsts
    from app.auth import Passwords
    from control.rules import shipped_rules
    from db.open import open_store
    from db.upgrade import upgrade
    from engine import demo as shown

    found = upgrade(data)
    if found.migrated:
        _say(f"the store was brought to this version; a copy from before: {found.backup}")
    store, now_s = open_store(data), time.time()
    try:
        password = firsts.first_admin(store, Passwords(), now_s)
        firsts.local_token(store, data / "ctl.json", url, now_s, token_s)
        firsts.drop_first_password(store, data)
        if demo:
            firsts.demo(store, shown.NAME, shown.text(), now_s)
        firsts.rules(store, [(r.name, r.mode, r.text) for r in shipped_rules()], now_s)
    finally:
        store.close()
    return password


def _webhooks_of_before(data: Path, settings: Settings) -> None:
    """Those that go on although nobody has allowed their port are named at each start."""
    from app.webhooks import unallowed
    from db.open import open_store

    store = open_store(data)
    try:
        for text in unallowed(store.webhooks.all(), ports_of(settings.webhook_ports)):
            _say(text)
    finally:
        store.close()


def _children(arguments: argparse.Namespace, data: Path, port: int) -> dict[str, list[str]]:
    """How each process is started: with the settings that `up` itself was given."""
    common = ["--settings", str(arguments.settings)] if arguments.settings else []
    for item in arguments.set:
        common += ["--set", item]
    begin = [sys.executable, str(Path(__file__).resolve()), *common]
    given = ["--data", str(data), "--supervised"]
    master = ["--master", arguments.master] if arguments.master else []
    return {
        "console": [*begin, "console", *given, "--port", str(port)],
        "control": [*begin, "control", *given],
        "engine": [*begin, "engine", *given, *master],
    }


def _port(arguments: argparse.Namespace, settings: Settings) -> int:
    return settings.port if arguments.port is None else int(arguments.port)


def _free(port: int) -> None:
    """Say at once that a port is taken, not by way of a child that ends again and again."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise PortError(
                f"port {port} cannot be listened on: {error.strerror}",
                where="127.0.0.1",
                hint="Another console may be running. Choose another port with --port.",
            ) from None


def _until_told(arguments: argparse.Namespace) -> threading.Event:
    from app.supervisor import stop_on_signals, stop_with_parent

    stop = threading.Event()
    (stop_with_parent if arguments.supervised else stop_on_signals)(stop)
    return stop


def engine_process(arguments: argparse.Namespace, settings: Settings) -> int:
    from app import locks
    from db.open import open_store
    from db.recorder import Recorder
    from engine.service import Service

    logs.install()
    data = _data(arguments, settings)
    settings = _in_effect(settings, data)
    with locks.hold(data, "engine"):
        stop, store = _until_told(arguments), open_store(data)
        recorder = Recorder(
            store.metrics, told=lambda text: _say(text or "the store is written again")
        )
        service = Service(
            store,
            data,
            settings,
            recorder.put,
            master=arguments.master,
            umask=arguments.umask,
            warn=_say,
            dropped=lambda: recorder.recording.dropped,
            secrets=_secrets(arguments, settings),
        )
        try:
            service.run(stop)
        finally:
            recorder.close()
            store.close()
    return 0


def control_process(arguments: argparse.Namespace, settings: Settings) -> int:
    from app import disks, locks
    from app.webhooks import Deliveries
    from control import service
    from control.dispatch import Dispatcher
    from db.maintenance import checkpoint
    from db.open import open_store
    from db.retention import tidy

    logs.install()
    data = _data(arguments, settings)
    ports = ports_of(settings.webhook_ports)
    with locks.hold(data, "control"):
        stop, store = _until_told(arguments), open_store(data)
        try:
            service.serve(
                store,
                Dispatcher(store, time.time),
                stop,
                time.time,
                tidy=lambda now_s: tidy(store, now_s),
                checkpoint=lambda now_s: checkpoint(store),
                deliver=Deliveries(store, ports).deliver,
                disks=lambda: disks.room((settings.mem_dir, str(data))),
            )
        finally:
            store.close()
    return 0


def console_process(arguments: argparse.Namespace, settings: Settings) -> int:
    from app.firsts import limit_tokens
    from app.server import make_app, serve
    from control.dispatch import Dispatcher
    from db.open import open_store
    from engine.registry import check, roots_of

    logs.install()
    data = _data(arguments, settings)
    roots = roots_of(settings, data)
    stop, store = _until_told(arguments), open_store(data)
    token_s = _token_s(settings)
    if count := limit_tokens(store, time.time(), token_s):
        _say(f"{count} API tokens that ended later or never end in {settings.token_days} days now")
    secrets = _secrets(arguments, settings)
    dispatcher = Dispatcher(
        store,
        time.time,
        check=lambda text: check(text, data, roots, secrets=secrets),
        keeper=secrets,
        token_s=token_s,
    )
    try:
        serve(
            make_app(
                store, dispatcher, _console(arguments, settings, data), time.time, secrets=secrets
            ),
            _port(arguments, settings),
            stop,
            lambda url: _say(f"console: {url}"),
        )
    finally:
        store.close()
    return 0


def _in_effect(settings: Settings, data: Path) -> Settings:
    """What the processes of `up` go by where nothing else is said."""
    return replace(
        settings,
        data_dir=str(data),
        log_dir=settings.log_dir or str(data / "logs"),
        trigger_seconds=settings.trigger_seconds or STEADY_TRIGGER_S,
    )


def _console(arguments: argparse.Namespace, settings: Settings, data: Path) -> ConsoleSettings:
    port = _port(arguments, settings)
    effect = replace(_in_effect(settings, data), port=port)
    return ConsoleSettings(
        port=port,
        hosts=tuple(name.strip() for name in settings.hosts.split(",") if name.strip()),
        https=settings.https == "yes",
        proxies=settings.proxies,
        webhook_ports=ports_of(settings.webhook_ports),
        idle_s=settings.idle_minutes * 60.0,
        absolute_s=settings.signin_hours * 3_600.0,
        token_s=_token_s(settings),
        about={"data": str(data)},
        shown={s.name: _shown(s, getattr(effect, s.name)) for s in TABLE},
    )


def _shown(setting: Setting, value: object) -> dict[str, object]:
    """One setting as the console shows it."""
    return {
        "value": value,
        "default": setting.default,
        "variable": setting.variable,
        "help": setting.help,
        "changed": value != setting.parse(setting.default),
    }


def backup_command(arguments: argparse.Namespace, settings: Settings) -> int:
    from control.redaction import places_in_file
    from db.maintenance import backup
    from db.open import open_store

    data = _data(arguments, settings)
    backup(data, arguments.file)
    print(f"saved to {arguments.file}, without named secrets")
    store = open_store(data)
    try:
        holding = [row.name for row in store.queries.all() if places_in_file(row.text)]
    finally:
        store.close()
    if holding:
        _say(
            f"warning: passwords stand in the files of {', '.join(holding)}, and so in this backup: better keep "
            "them as named secrets (run.py ctl secret set NAME)"
        )
    return 0


def restore_command(arguments: argparse.Namespace, settings: Settings) -> int:
    from db.restore import restore

    done = restore(arguments.file, _data(arguments, settings), now_s=time.time())
    print("restored; the engine's own commits tell it what came after the backup")
    print(done)
    return 0


def diagnose_command(arguments: argparse.Namespace, settings: Settings) -> int:
    from app.diagnose import bundle
    from control.errors import StoreError
    from db.open import open_store

    data = _data(arguments, settings)
    try:
        store = open_store(data)
    except StoreError as error:
        _say(f"without the store: {error}")
        store = None
    secrets = _secrets(arguments, settings).values()
    names = bundle(store, data, asdict(settings), arguments.out, secrets=secrets)
    print(f"{arguments.out}: {len(names)} files, without passwords, tokens, webhooks or results")
    return 0


def user_command(arguments: argparse.Namespace, settings: Settings) -> int:
    from control.dispatch import Dispatcher
    from db.open import open_store

    store = open_store(_data(arguments, settings))
    try:
        dispatcher = Dispatcher(store, time.time, token_s=_token_s(settings))
        return users_cli.run(arguments, store, dispatcher)
    finally:
        store.close()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


PROCESSES: Mapping[str, Callable[[argparse.Namespace, Settings], int]] = {
    "up": up,
    "engine": engine_process,
    "control": control_process,
    "console": console_process,
    "backup": backup_command,
    "restore": restore_command,
    "diagnose": diagnose_command,
    "user": user_command,
}


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    try:
        return dispatch(arguments)
    except (SpillwayError, ControlError, AppError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USER
    except KeyboardInterrupt:
        if getattr(arguments, "action", "") != "tail":
            print("\nstopped; start again to resume", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of stdout went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
