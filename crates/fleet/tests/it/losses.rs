//! Messages that are lost, workers and servers that are away: nothing on the bus counts on being heard the first time.

use std::time::Duration;

use fleet::message::{End, Folder, Request, Standing, Told, Want, bucket, of_run};
use fleet::{Crew, Event, Stop};
use futures_util::StreamExt as _;
use testkit::Nats;

use crate::support::{
    LIMIT, Relay, SCRIPT, answer_as, bus, call, done, play, stopped_once_it_prints, watch, worker,
    worker_at,
};

/// It stayed claimed for the run, and the run could not have it again.
#[tokio::test]
#[ignore = "needs nats-server"]
async fn a_worker_that_answers_one_roll_too_late_is_had_again() {
    let nats = Nats::start();
    let _slow = answer_as(&nats, "slow", &[1], |request| Some(done(request, 0))).await;
    let mut crew = call(&nats, "run", 1).await.unwrap();
    crew.call(1, "1.0", LIMIT).await.unwrap();
    assert_eq!(crew.members()[0].host, "slow");
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn a_worker_whose_answer_to_a_claim_is_not_heard_is_claimed_again() {
    let nats = Nats::start();
    let mut claims = 0;
    let _slow = answer_as(&nats, "slow", &[], move |request| {
        claims += 1;
        (claims > 1).then(|| done(request, 0))
    })
    .await;
    let crew = call(&nats, "run", 1).await.unwrap();
    assert_eq!(crew.members().len(), 1);
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn programs_are_asked_to_stop_until_they_have() {
    let nats = Nats::start();
    let (asked, mut stops) = tokio::sync::mpsc::unbounded_channel();
    let _deaf = answer_as(&nats, "deaf", &[], move |request| {
        if request.want == Want::Stop {
            asked.send(()).unwrap();
        }
        Some(done(request, 0))
    })
    .await;
    let mut crew = call(&nats, "run", 1).await.unwrap();
    play(&mut crew, |_| vec![SCRIPT]).await;
    let ends = async {
        // The first is lost.
        for _ in 0..2 {
            stops.recv().await.unwrap();
        }
        let told = Told {
            worker: "deaf".into(),
            load: 1,
            standing: Standing {
                line: None,
                end: Some(End {
                    code: Some(130),
                    words: Vec::new(),
                    folder: Folder::Kept,
                }),
            },
            ..Told::default()
        };
        let client = async_nats::connect(nats.url()).await.unwrap();
        let told = serde_json::to_vec(&told).unwrap();
        client
            .publish(of_run("run", "told"), told.into())
            .await
            .unwrap();
        client.flush().await.unwrap();
    };
    let ((endings, _), ()) = tokio::join!(watch(&mut crew, || Stop::Orderly), ends);
    assert_eq!((endings[0].code, endings[0].kept), (Some(130), true));
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn a_worker_says_how_its_load_ended_until_there_is_another_one() {
    let nats = Nats::start();
    let _worker = worker(&nats, "a", "1.0");
    let mut crew = call(&nats, "run", 1).await.unwrap();
    let client = async_nats::connect(nats.url()).await.unwrap();
    let mut told = client.subscribe(of_run("run", "told")).await.unwrap();
    client.flush().await.unwrap();
    play(&mut crew, |_| vec!["exit 7"]).await;
    let mut times = 0;
    while times < 3 {
        let message = told.next().await.unwrap();
        let told: Told = serde_json::from_slice(&message.payload).unwrap();
        let Some(end) = told.standing.end else {
            continue;
        };
        assert_eq!(end.code, Some(7));
        times += u8::from(matches!(end.folder, Folder::NotKept(_)));
    }
    play(&mut crew, |_| vec!["sleep 60"]).await;
    let is_of_next = |message: async_nats::Message| {
        let told: Told = serde_json::from_slice(&message.payload).unwrap();
        told.load == 2 && told.standing == Standing::default()
    };
    while !is_of_next(told.next().await.unwrap()) {}
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn a_worker_that_is_stopped_is_heard_until_its_folder_is_brought() {
    let nats = Nats::start();
    let stopped = worker(&nats, "a", "1.0");
    let mut crew = call(&nats, "run", 1).await.unwrap();
    let client = async_nats::connect(nats.url()).await.unwrap();
    let mut told = client.subscribe(of_run("run", "told")).await.unwrap();
    client.flush().await.unwrap();
    let (asked, goes) = (nats.home().join("asked"), nats.home().join("goes"));
    let script = format!(
        r#"trap 'touch {}; while [ ! -e {} ]; do sleep 0.1; done; exit 130' INT; mkdir "$1"; echo 1; while :; do sleep 0.1; done"#,
        asked.display(),
        goes.display()
    );
    play(&mut crew, |_| vec![&script]).await;
    let mut next = async || {
        let message = told.next().await.unwrap();
        serde_json::from_slice::<Told>(&message.payload)
            .unwrap()
            .standing
    };
    while next().await.line.is_none() {}
    let heard = async {
        let mut times = 0;
        while times < 3 {
            let is_at_work = next().await.end.is_none();
            times += u8::from(is_at_work && asked.exists());
        }
        std::fs::write(&goes, "").unwrap();
        loop {
            if let Some(end) = next().await.end
                && end.folder == Folder::Kept
            {
                break end.code;
            }
        }
    };
    let both = async { tokio::join!(stopped.stop(), heard) };
    let ((), code) = tokio::time::timeout(LIMIT, both).await.unwrap();
    assert_eq!(code, Some(130));
}

/// Whoever had brought its folder before it was gone is lost without it.
#[tokio::test]
#[ignore = "needs nats-server"]
async fn a_worker_that_is_gone_is_lost_and_the_others_are_not() {
    let nats = Nats::start();
    let gone = worker(&nats, "gone", "1.0");
    let stays = worker(&nats, "stays", "1.0");
    let _silent = answer_as(&nats, "silent", &[], |request| Some(done(request, 0))).await;
    let mut crew = call(&nats, "run", 3).await.unwrap();
    let hosts: Vec<String> = crew.members().iter().map(|it| it.host.clone()).collect();
    let place = |name: &str| hosts.iter().position(|host| host == name).unwrap();
    play(&mut crew, |_| vec![SCRIPT, "1"]).await;
    drop(gone);
    let store = async_nats::jetstream::new(async_nats::connect(nats.url()).await.unwrap());
    let store = loop {
        // The one that stays makes it.
        match store.get_object_store(bucket("run")).await {
            Ok(store) => break store,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    let name = (place("silent") + 1).to_string();
    store
        .put(name.as_str(), &mut &b"a folder"[..])
        .await
        .unwrap();
    let (endings, events) = watch(&mut crew, || Stop::No).await;
    for (name, expected) in [
        ("gone", (true, false)),
        ("stays", (false, true)),
        ("silent", (true, true)),
    ] {
        let ending = &endings[place(name)];
        assert_eq!((ending.lost, ending.kept), expected, "{name}");
    }
    assert!(
        events.contains(&Event::Heard(place("gone"), false)),
        "{events:?}"
    );
    stays.stop().await;
}

/// It went on alone: its part was sent, and nobody recorded that.
#[tokio::test]
#[ignore = "needs nats-server"]
async fn workers_of_a_load_that_one_refuses_are_asked_to_stop_until_they_answer() {
    let nats = Nats::start();
    let (asked, mut stops) = tokio::sync::mpsc::unbounded_channel();
    let play_answer = |host: &'static str, request: &Request| {
        let told = done(request, 0);
        let refused = (host == "refuses").then(|| "no".to_owned());
        // The answer to the order is lost.
        (host != "unheard").then_some(Told { refused, ..told })
    };
    for host in ["refuses", "unheard", "deaf"] {
        let (asked, mut times) = (asked.clone(), 0);
        answer_as(&nats, host, &[], move |request| match request.want {
            Want::Play(_) => play_answer(host, request),
            Want::Stop => {
                times += 1;
                asked.send(host).unwrap();
                // What the deaf one is asked first is lost.
                (host != "deaf" || times > 1).then(|| done(request, 0))
            }
            _ => Some(done(request, 0)),
        })
        .await;
    }
    let mut crew = call(&nats, "run", 3).await.unwrap();
    let refused = crew.play(&[], |_, _| Vec::new()).await.unwrap_err();
    assert!(refused.to_string().starts_with("worker "), "{refused}");
    let mut hosts = Vec::new();
    while let Ok(host) = stops.try_recv() {
        hosts.push(host);
    }
    hosts.sort_unstable();
    assert_eq!(hosts, ["deaf", "deaf", "refuses", "unheard"]);
}

/// The connection of a worker is cut by a message, which is lost with it.
#[tokio::test]
#[ignore = "needs nats-server"]
async fn what_is_lost_with_the_connection_is_said_again() {
    let nats = Nats::start();
    let relay = Relay::to(&nats).await;
    let _worker = worker_at(&nats, &relay.url(), "a", "1.0");
    let mut crew = call(&nats, "run", 1).await.unwrap();
    // A second one has its folder in the way.
    let script =
        r#"trap 'exit 130' INT; mkdir "$1" || exit 7; echo 1; while :; do sleep 0.1; done"#;
    // The order, its answer, and how the load stands: the last that is told of a load is told again beside the next.
    let ended = r#""load":5,"refused":null,"line":1,"end":{"code":130,"words":[],"folder":"kept""#;
    let begun = r#""load":2,"refused":null,"line":null"#;
    for lost in [r#""play""#, begun, r#""line":1"#, r#""stop""#, ended] {
        relay.lose(lost);
        play(&mut crew, |_| vec![script]).await;
        let endings = stopped_once_it_prints(&mut crew).await;
        assert!(relay.has_lost(), "{lost}");
        assert_eq!(
            (endings[0].code, endings[0].kept),
            (Some(130), true),
            "{lost}"
        );
    }
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn what_a_program_prints_while_the_server_is_away_is_heard_when_it_is_back() {
    let mut nats = Nats::start();
    let _worker = worker(&nats, "a", "1.0");
    let mut crew = call(&nats, "run", 1).await.unwrap();
    let file = |name: &str| nats.home().join(name);
    let (goes, printed, ends) = (file("goes"), file("printed"), file("ends"));
    let script = format!(
        r#"until [ -e {} ]; do sleep 0.1; done; echo 1; echo 2; touch {}; until [ -e {} ]; do sleep 0.1; done; mkdir "$1""#,
        goes.display(),
        printed.display(),
        ends.display()
    );
    play(&mut crew, |_| vec![&script]).await;
    nats.stop();
    std::fs::write(&goes, "").unwrap();
    while !printed.exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    nats.restart();
    // It ends when it is heard.
    let mut turn = |events: Vec<Event>| {
        if events.contains(&Event::Line(0, 2.into())) {
            std::fs::write(&ends, "").unwrap();
        }
        Stop::No
    };
    let endings = crew.watch(LIMIT, &mut turn).await.unwrap();
    assert_eq!((endings[0].code, endings[0].kept), (Some(0), true));
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn a_server_that_restarts_costs_no_folder() {
    let mut nats = Nats::start();
    let _worker = worker(&nats, "a", "1.0");
    let mut crew = call(&nats, "run", 1).await.unwrap();
    play(&mut crew, |_| vec![SCRIPT, "3"]).await;
    let (endings, _) = {
        let restarting = std::thread::spawn(move || {
            nats.restart();
            nats
        });
        let watched = watch(&mut crew, || Stop::No).await;
        nats = restarting.join().unwrap();
        watched
    };
    assert!(endings[0].kept && endings[0].code == Some(0), "{endings:?}");
    let folders = Crew::fetch_later(&bus(&nats).await, "run", nats.home()).await;
    assert_eq!(folders.unwrap(), [nats.home().join("shard-1")]);
}
