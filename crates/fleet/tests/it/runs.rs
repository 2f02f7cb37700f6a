//! Runs of crews, from the call to the folders.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fleet::{Bus, Crew, Event, FleetError, Stop, Worker};
use futures_util::StreamExt as _;
use testkit::Nats;

use crate::support::{
    LIMIT, SCRIPT, answer_as, bus, call, call_for, done, play, program, stopped_once_it_prints,
    watch, worker,
};

#[tokio::test]
#[ignore = "needs nats-server"]
async fn all_start_and_their_folders_come_back() {
    let nats = Nats::start();
    let workers = [worker(&nats, "a", "1.0"), worker(&nats, "b", "1.0")];
    let mut crew = call(&nats, "one", 2).await.unwrap();
    crew.compare_clocks(Duration::from_secs(1)).await.unwrap();
    for member in crew.members() {
        // The clocks are one.
        let offset = member.clock.first().unwrap();
        assert!(offset.low_ns <= 0 && 0 <= offset.high_ns, "{offset:?}");
    }
    play(&mut crew, |_| vec![SCRIPT, "1"]).await;
    let (endings, events) = watch(&mut crew, || Stop::No).await;
    for (place, ending) in endings.iter().enumerate() {
        assert_eq!(
            (ending.code, ending.kept, ending.lost),
            (Some(0), true, false),
            "{ending:?}"
        );
        assert!(
            events.contains(&Event::Line(place, serde_json::json!({"at": 1}))),
            "{events:?}"
        );
        let into = nats.home().join(format!("fetched-{place}"));
        crew.fetch(place, &into).await.unwrap();
        let word = std::fs::read_to_string(into.join("word")).unwrap();
        assert_eq!(word, "of all\n");
    }
    crew.forget().await;
    crew.end().await;
    let nothing = Crew::fetch_later(&bus(&nats).await, "one", nats.home()).await;
    assert!(
        matches!(nothing, Err(FleetError::Workers(_))),
        "{nothing:?}"
    );
    for worker in workers {
        worker.stop().await;
    }
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn who_is_busy_or_of_another_version_is_named_and_who_comes_late_is_taken() {
    let nats = Nats::start();
    let _old = worker(&nats, "old", "0.9");
    let _one = worker(&nats, "one", "1.0");
    let mut crew = call(&nats, "first", 1).await.unwrap();
    let error = call_for(&nats, "second", 1, Duration::from_secs(10))
        .await
        .unwrap_err()
        .to_string();
    for said in [
        "old has version 0.9, protocol 6, this is version 1.0, protocol 6",
        "one is at work for run first",
    ] {
        assert!(error.contains(said), "{error}");
    }
    crew.forget().await;
    crew.end().await;
    let (crew, _late) = tokio::join!(call(&nats, "third", 2), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        worker(&nats, "late", "1.0")
    });
    assert_eq!(crew.unwrap().members().len(), 2);
}

/// Runs are named by the second and the process, which two containers may have in common.
#[tokio::test]
#[ignore = "needs nats-server"]
async fn a_worker_is_not_shared_by_two_coordinators_whose_runs_have_one_name() {
    let nats = Nats::start();
    let _worker = worker(&nats, "a", "1.0");
    let crew = call(&nats, "one", 1).await.unwrap();
    let other = call_for(&nats, "one", 1, Duration::ZERO).await;
    let error = other.unwrap_err().to_string();
    assert!(error.contains("1 workers are wanted, and 0"), "{error}");
    assert_eq!(crew.members().len(), 1);
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn a_clock_that_is_200_ms_ahead_is_found_within_the_error_that_is_given() {
    let nats = Nats::start();
    let ahead = Duration::from_millis(200);
    let now = move || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        i64::try_from((since + ahead).as_nanos()).unwrap()
    };
    let mut questions = 0;
    let _ahead = answer_as(&nats, "ahead", &[], move |request| {
        questions += 1;
        // The first after it is claimed is lost.
        (questions != 2).then(|| done(request, now()))
    })
    .await;
    let mut crew = call(&nats, "run", 1).await.unwrap();
    crew.compare_clocks(LIMIT).await.unwrap();
    let offset = crew.members()[0].clock.first().unwrap();
    let from_truth = offset.offset_ns() - ahead.as_nanos() as i64;
    assert!(from_truth.abs() <= offset.error_ns(), "{offset:?}");
    println!(
        "{} ns from 200 ms, within {} ns",
        from_truth,
        offset.error_ns()
    );
    // It is the error that is refused, never the offset: a start by another clock is as exact as that.
    let refused = crew.compare_clocks(Duration::ZERO).await.unwrap_err();
    assert!(refused.to_string().contains("is known to ±"), "{refused}");
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn a_crew_plays_load_after_load_and_replaces_who_is_gone() {
    let nats = Nats::start();
    let _stays = worker(&nats, "a", "1.0");
    let goes = worker(&nats, "b", "1.0");
    let mut crew = call(&nats, "run", 2).await.unwrap();
    for load in 1..=2 {
        play(&mut crew, |_| vec![SCRIPT, "0"]).await;
        let (endings, _) = watch(&mut crew, || Stop::No).await;
        assert!(endings.iter().all(|it| it.kept && !it.lost), "{endings:?}");
        for place in 0..2 {
            let into = nats.home().join(format!("load-{load}-{place}"));
            crew.fetch(place, &into).await.unwrap();
        }
        crew.forget().await;
        // Between two loads nobody else has them.
        let other = call_for(&nats, "other", 1, Duration::ZERO).await;
        let error = other.unwrap_err().to_string();
        assert!(error.contains("is at work for run run"), "{error}");
    }
    goes.stop().await;
    let error = crew.call(2, "1.0", Duration::ZERO).await.unwrap_err();
    assert!(error.to_string().contains("1 could be had"), "{error}");
    // It has let the other one go.
    let _late = worker(&nats, "c", "1.0");
    crew.call(2, "1.0", LIMIT).await.unwrap();
    play(&mut crew, |_| vec![SCRIPT, "0"]).await;
    let (endings, _) = watch(&mut crew, || Stop::No).await;
    assert!(endings.iter().all(|it| it.kept), "{endings:?}");
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn programs_that_fail_are_killed_or_leave_nothing_are_told_apart() {
    let nats = Nats::start();
    let hosts = ["a", "b", "c"];
    let mut workers = Vec::new();
    for host in hosts {
        workers.push(worker(&nats, host, "1.0"));
    }
    let mut crew = call(&nats, "run", 3).await.unwrap();
    play(&mut crew, |number| {
        let script = match number {
            1 => "echo 'error: no such node' >&2; exit 2",
            2 => r#"mkdir "$1"; kill -9 $$"#,
            _ => r#"mkdir "$1"; exit 98"#,
        };
        vec![script]
    })
    .await;
    let (endings, _) = watch(&mut crew, || Stop::No).await;
    let told: Vec<_> = endings
        .iter()
        .map(|it| (it.code, it.kept, it.lost))
        .collect();
    assert_eq!(
        told,
        [
            (Some(2), false, false),
            (None, true, false),
            (Some(98), true, false)
        ]
    );
    let words = ["error: no such node", "the program left no folder"];
    assert_eq!(endings[0].words, words);
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn programs_that_are_asked_to_stop_keep_what_they_have() {
    let nats = Nats::start();
    let _worker = worker(&nats, "a", "1.0");
    let mut crew = call(&nats, "run", 1).await.unwrap();
    let script = r#"trap 'echo stopped > "$1/word"; exit 130' INT; mkdir "$1"; echo '{}'; while :; do sleep 0.1; done"#;
    play(&mut crew, |_| vec![script]).await;
    let endings = stopped_once_it_prints(&mut crew).await;
    assert_eq!(
        (endings[0].code, endings[0].kept),
        (Some(130), true),
        "{endings:?}"
    );
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn a_load_that_one_program_ended_is_over_for_all_and_can_still_be_interrupted() {
    let nats = Nats::start();
    let _workers = [worker(&nats, "a", "1.0"), worker(&nats, "b", "1.0")];
    let mut crew = call(&nats, "run", 2).await.unwrap();
    // A line may be lost: each is said again.
    let script = r#"over=0; trap 'over=1' USR2; trap 'exit 130' INT; mkdir "$1"; while :; do echo $over; sleep 0.1; done"#;
    play(&mut crew, |_| vec![script]).await;
    let mut said = [None, None];
    let mut turn = |events: Vec<Event>| {
        for event in events {
            if let Event::Line(place, line) = event {
                said[place] = line.as_u64();
            }
        }
        match said {
            [None, _] | [_, None] => Stop::No,
            [Some(1), Some(1)] => Stop::Orderly,
            _ => Stop::Over,
        }
    };
    let endings = crew.watch(LIMIT, &mut turn).await.unwrap();
    let codes: Vec<_> = endings.iter().map(|it| (it.code, it.kept)).collect();
    assert_eq!(codes, [(Some(130), true), (Some(130), true)], "{endings:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn a_thousand_workers_are_one_crew() {
    let nats = Nats::start();
    let mut workers = Vec::with_capacity(THOUSAND);
    for number in 0..THOUSAND {
        let host = format!("m{number}");
        let (program, runs) = program(&nats, &host, "1.0");
        let bus = Bus::connect(&nats.url(), &host).await.unwrap();
        let worker = Worker::new(bus, host, program, runs);
        workers.push(tokio::spawn(async move {
            let stop = std::future::pending();
            worker.serve(stop).await.unwrap();
        }));
    }
    let mut crew = call(&nats, "run", THOUSAND).await.unwrap();
    crew.compare_clocks(LIMIT).await.unwrap();
    let all = async_nats::connect(nats.url()).await.unwrap();
    let mut all = all.subscribe(">").await.unwrap();
    let began = std::time::Instant::now();
    play(&mut crew, |_| vec![SCRIPT, "10"]).await;
    let watched = watch(&mut crew, || Stop::No);
    let (mut messages, mut bytes) = (0, 0);
    let count = async {
        while let Some(message) = all.next().await {
            messages += 1;
            bytes += message.length;
        }
    };
    let (endings, events) = tokio::select! {
        watched = watched => watched,
        () = count => panic!("the server is gone"),
    };
    let seconds = began.elapsed().as_secs_f64();
    let each = |count: usize| count as f64 / seconds / THOUSAND as f64;
    let (messages, kilobytes) = (each(messages), each(bytes) / 1e3);
    println!("{seconds:.1} s; for each worker a second {messages:.1} messages, {kilobytes:.2} kB");
    // Seven a second without lines of figures, and those that bring an order and a folder.
    assert!(messages < 7.0 + 20.0 / seconds, "{messages}");
    assert!(endings.iter().all(|it| it.kept && !it.lost), "{endings:?}");
    let line = serde_json::json!({"at": 1});
    for place in 0..THOUSAND {
        assert!(
            events.contains(&Event::Line(place, line.clone())),
            "{place}"
        );
    }
}

const THOUSAND: usize = 1_000;
