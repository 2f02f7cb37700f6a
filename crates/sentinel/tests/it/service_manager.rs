//! `sentinel` as systemd starts it: sockets that are passed on, and what the manager is told.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::Signal;
use testkit::{Http, Place, Running};

use crate::command_line::{ALONE, place};

/// The program with one or two sockets from descriptor 3 on, as `sd_listen_fds(3)` has it. `id` is
/// whom they are meant for, in the shell's words; `$$` is the program itself.
fn with_sockets(place: &Place, line: &str, sockets: Vec<OwnedFd>, id: &str) -> Running {
    let script = format!(
        "exec 3<&0 4>&1 </dev/null >/dev/null; LISTEN_FDS={} LISTEN_PID={id} exec \"$0\" \"$@\"",
        sockets.len()
    );
    let mut command = place.command("sh");
    command
        .args(["-c", &script, env!("CARGO_BIN_EXE_sentinel")])
        .args(line.split_whitespace());
    command.env("NOTIFY_SOCKET", place.path().join("notify"));
    let mut sockets = sockets.into_iter();
    if let Some(socket) = sockets.next() {
        command.stdin(socket);
    }
    if let Some(socket) = sockets.next() {
        command.stdout(socket);
    }
    Running::start(command)
}

/// What the manager hears.
fn manager(place: &Place) -> UnixDatagram {
    let socket = UnixDatagram::bind(place.path().join("notify")).unwrap();
    // Only to end a test that would wait for ever.
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    socket
}

fn heard(manager: &UnixDatagram) -> String {
    let mut message = [0; 256];
    let count = manager.recv(&mut message).unwrap();
    String::from_utf8_lossy(&message[..count]).trim().to_owned()
}

fn listener() -> (OwnedFd, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener.into(), address)
}

#[test]
fn passed_listeners_are_used_and_the_manager_learns_of_the_start_and_the_end() {
    let place = place();
    let manager = manager(&place);
    let ((clients, front), (operators, admin)) = (listener(), listener());
    // A client that comes before the program: the kernel holds its connection.
    let early = TcpStream::connect(front).unwrap();
    let running = with_sockets(&place, ALONE, vec![clients, operators], "$$");
    assert_eq!(heard(&manager), "READY=1");
    running.said(&format!("serving address={front}"));
    let refused = Http::new(front, Duration::from_secs(20)).get("/unsafe_flush_mempool");
    assert_eq!(refused.unwrap().status, 403);
    let healthy = Http::new(admin, Duration::from_secs(20)).get("/healthz");
    assert_eq!(healthy.unwrap().status, 200);
    drop(early);
    running.signal(Signal::TERM);
    assert_eq!(heard(&manager), "STOPPING=1");
    running.wait().expect(0);
}

#[test]
fn one_passed_listener_is_the_clients_and_the_operators_is_opened_as_configured() {
    let place = place();
    let manager = manager(&place);
    let (clients, front) = listener();
    let admin = testkit::free_port();
    let line = format!("{ALONE} --admin 127.0.0.1:{admin}").replace("--admin 127.0.0.1:0 ", "");
    let running = with_sockets(&place, &line, vec![clients], "$$");
    assert_eq!(heard(&manager), "READY=1");
    let metrics =
        Http::new(([127, 0, 0, 1], admin).into(), Duration::from_secs(20)).get("/metrics");
    assert_eq!(metrics.unwrap().status, 200);
    let refused = Http::new(front, Duration::from_secs(20)).get("/unsafe_flush_mempool");
    assert_eq!(refused.unwrap().status, 403);
    drop(running);
}

#[test]
fn sockets_that_were_meant_for_another_process_are_left_alone() {
    let place = place();
    let manager = manager(&place);
    let (clients, front) = listener();
    let running = with_sockets(&place, ALONE, vec![clients], "1");
    assert_eq!(heard(&manager), "READY=1");
    let line = running.said("serving address=127.0.0.1:");
    assert!(!line.contains(&front.to_string()), "{line}");
}

#[test]
fn what_is_passed_and_no_use_ends_with_exit_code_2() {
    let (_listener, address) = listener();
    let connected = TcpStream::connect(address).unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    for (line, sockets, phrase) in [
        (ALONE, vec![OwnedFd::from(udp)], "LISTEN_FDS"),
        (ALONE, vec![connected.into()], "the unit needs Accept=no"),
        (
            "--listen 127.0.0.1:0 --admin off --upstream http://127.0.0.1:1",
            vec![listener().0, listener().0],
            "passed 2 sockets, and 1 are wanted",
        ),
    ] {
        let place = place();
        let ended = with_sockets(&place, line, sockets, "$$").wait();
        ended.expect(2).says(phrase);
    }
}
