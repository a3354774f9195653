//! Pages load in the order that their priorities ask for.

use super::link::{DOWNLOAD, Link, RATE, ROUND_TRIP};

/// Returns when each response was complete, in ms from the first request.
fn load(link: &mut Link, page: &[(u64, &str)]) -> Vec<u64> {
    let start = link.now;
    let streams: Vec<u64> =
        page.iter().map(|(bytes, priority)| link.bytes(*bytes, priority)).collect();
    let waited = streams.into_iter().map(|stream| {
        link.wait(stream);
        link.done(stream).unwrap() - start
    });
    waited.collect()
}

/// Returns the least time for so many bytes, ms.
fn least(bytes: u64) -> u64 {
    ROUND_TRIP + bytes / RATE
}

/// The responses of a page, the least urgent first: images, scripts, styles and the document.
fn page() -> Vec<(u64, &'static str)> {
    let images = (0..12).map(|_| (150_000, "u=5, i"));
    let scripts = (0..4).map(|_| (400_000, "u=2"));
    let styles = (0..3).map(|_| (50_000, "u=0"));
    images.chain(scripts).chain(styles).collect()
}

#[test]
fn urgent_responses_of_a_page_come_first_and_one_after_the_other() {
    let mut link = Link::warm();
    let done = load(&mut link, &page());
    let (images, rest) = done.split_at(12);
    let (scripts, styles) = rest.split_at(4);
    assert!(styles.is_sorted() && scripts.is_sorted());
    assert!(styles[2] < scripts[0] && scripts[3] < images[0], "{done:?}");
    // Heads, frames and packets take some bytes, too.
    for (number, style) in (1..).zip(styles) {
        assert!(*style <= least(number * 50_000) * 11 / 10, "{done:?}");
    }
    for (number, script) in (1..).zip(scripts) {
        assert!(*script <= least(150_000 + number * 400_000) * 11 / 10, "{done:?}");
    }
    // Images share, and so end together.
    assert!(images.iter().max().unwrap() - images.iter().min().unwrap() < 150, "{done:?}");
}

#[test]
fn responses_of_one_urgency_come_one_after_the_other() {
    for bytes in [300_000, 1_000_000, 2_000_000] {
        let mut link = Link::warm();
        let done = load(&mut link, &[(bytes, ""); 6]);
        for (number, done) in (1..).zip(&done) {
            assert!(*done <= least(number * bytes) * 11 / 10, "{done:?}");
        }
    }
}

#[test]
fn a_less_urgent_download_costs_a_page_no_tenth_of_its_time() {
    let mut link = Link::new();
    let download = link.bytes(DOWNLOAD, "u=7");
    link.pass(1000);
    let page = [(400_000, "u=0"), (800_000, "u=2"), (600_000, "u=5, i")];
    let done = load(&mut link, &page);
    let mut bytes = 0;
    for ((length, _), done) in page.iter().zip(&done) {
        bytes += length;
        assert!(*done <= least(bytes) * 11 / 10, "{done:?}");
    }
    assert!(link.done(download).is_none());
}

#[test]
fn a_page_beside_a_more_urgent_download_has_half_of_the_link_in_its_own_order() {
    let mut link = Link::new();
    link.bytes(DOWNLOAD, "u=0, i");
    link.pass(1000);
    let page = [(400_000, "u=5"), (400_000, "u=3"), (400_000, "u=1")];
    let done = load(&mut link, &page);
    for (number, done) in (1..).zip(done.iter().rev()) {
        assert!(*done <= least(2 * number * 400_000) * 11 / 10, "{done:?}");
    }
    assert!(done[2] < done[1] && done[1] < done[0], "{done:?}");
}
