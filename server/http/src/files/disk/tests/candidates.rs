//! Files that are tried one after the other.

use super::*;

/// Returns a folder with an application of one page, which tries these files.
fn folder(candidates: &[&str]) -> Folder {
    let mut folder = Folder::new();
    folder.files.candidates = candidates.iter().map(ToString::to_string).collect();
    folder.write("index.html", "application");
    folder.write("a.txt", "a");
    folder.write("about.html", "about");
    folder.write("dir/index.html", "index of dir");
    folder.write("empty/x", "x");
    folder.write(".hidden", "hidden");
    folder
}

#[test]
fn the_first_file_that_exists_is_served() {
    let folder = folder(&["{path}", "{path}.html", "/index.html"]);
    for (path, expected) in [
        ("/a.txt", "a"),
        ("/about", "about"),
        ("/about.html", "about"),
        ("/dir/", "index of dir"),
        ("/empty/", "application"),
        ("/", "application"),
        ("/users/7", "application"),
        ("/a.txt/b", "application"),
    ] {
        assert_eq!(folder.text(path), (200, expected.to_owned()), "{path}");
    }
    let page = folder.get("/users/7");
    assert_eq!(field(&page, "content-type"), Some("text/html; charset=utf-8"));
}

#[test]
fn without_a_file_the_response_is_404() {
    let folder = folder(&["{path}", "{path}.html", "/missing.html"]);
    assert_eq!(folder.text("/about").0, 200);
    assert_eq!(folder.text("/users/7").0, 404);
}

#[test]
fn a_hidden_name_is_not_found_whatever_is_tried() {
    let folder = folder(&["{path}", "/.hidden", "/index.html"]);
    assert_eq!(folder.text("/.hidden").0, 404);
    assert_eq!(folder.text("/.git/config").0, 404);
    assert_eq!(folder.text("/users/7"), (200, "application".to_owned()));
}

#[test]
fn only_the_folder_that_the_request_names_is_redirected_to() {
    let folder = folder(&["{path}", "/dir", "/index.html"]);
    assert_eq!(folder.text("/dir").0, 301);
    assert_eq!(folder.text("/users/7"), (200, "application".to_owned()));
}

/// A cache has the file under the path of the request, so a client could fill it with as many paths as it likes.
#[test]
fn a_file_in_place_of_another_is_not_offered_to_a_cache() {
    let folder = folder(&["{path}", "/index.html"]);
    folder.text("/index.html");
    assert!(folder.learnt.borrow().is_some());
    folder.text("/users/7");
    assert!(folder.learnt.borrow().is_none());
}
