use crate::follow::Follow;
use crate::plot::{Gather, Picture, draw};
use crate::reader;

fn picture(events: u64) -> Picture {
    let mut text = String::from("{\"qlog_version\":\"0.3\"}\n");
    for at in 0..events {
        let window = 12_000 + 10 * (at % 1000);
        text += &format!(
            "{{\"time\":{at},\"name\":\"recovery:metrics_updated\",\"data\":{{\"cwnd\":{window},\"bytes_in_flight\":{window},\"latest_rtt\":10}}}}\n"
        );
        if at % 100 == 0 {
            let state = at / 100 % 20;
            text += &format!(
                "{{\"time\":{at},\"name\":\"recovery:congestion_state_updated\",\"data\":{{\"new\":\"a<&{state}\"}}}}\n"
            );
        }
    }
    let mut follow = Follow::new(Gather::new(1));
    reader::read(text.as_bytes(), &mut follow).unwrap();
    follow.follower.finish().unwrap()
}

#[test]
fn pictures_of_long_traces_are_not_larger() {
    let (short, long) = (picture(3_000), picture(60_000));
    let size = |picture: &Picture| draw(&[("a", picture)]).len();
    assert!(size(&long) < 2 * size(&short).max(100_000), "{} {}", size(&short), size(&long));
}

#[test]
fn names_of_traces_cannot_be_markup() {
    let svg = draw(&[("<script>\u{1b}&", &picture(200)), ("b", &picture(300))]);
    assert!(!svg.contains("<script") && svg.contains("&lt;script&gt;\u{fffd}&amp;"));
    assert!(svg.contains("a&lt;&amp;0") && !svg.contains('\u{1b}'));
    assert!(svg.contains("prefers-color-scheme: dark"));
}

#[test]
fn an_empty_trace_has_a_picture() {
    let mut follow = Follow::new(Gather::new(1));
    reader::read(&b"{\"qlog_version\":\"0.3\"}\n"[..], &mut follow).unwrap();
    let picture = follow.follower.finish().unwrap();
    assert!(!draw(&[("a", &picture)]).contains("NaN"));
}

#[test]
fn one_of_several_traces_is_drawn() {
    let trace = r#"{"events":[{"time":0,"name":"a:b"},{"time":5,"name":"a:b"}]}"#;
    let text = format!(r#"{{"qlog_version":"0.3","traces":[{{"events":[]}},{trace},{trace}]}}"#);
    let drawn = |number| {
        let mut follow = Follow::new(Gather::new(number));
        reader::read(text.as_bytes(), &mut follow).unwrap();
        follow.follower.finish().map(|picture| picture.summary.events)
    };
    assert_eq!([1, 2, 3, 4].map(drawn), [Some(0), Some(2), Some(2), None]);
}
