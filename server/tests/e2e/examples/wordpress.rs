//! The example of WordPress behind PHP-FPM.

use super::*;
use crate::fastcgi;

#[test]
fn wordpress_sends_files_and_has_php_do_the_rest() {
    let folder = Folder::new();
    write(
        &folder,
        &[
            ("index.php", "<?php"),
            ("wp-login.php", "<?php"),
            ("xmlrpc.php", "<?php"),
            ("wp-config.php", "<?php"),
            ("wp-admin/index.php", "<?php"),
            ("wp-includes/app.css", "body {}"),
            ("wp-content/uploads/cat.jpg", "cat"),
            ("wp-content/uploads/shell.php", "<?php"),
        ],
    );
    let server = fastcgi::server::start().to_string();
    let replaced = [("/srv/wordpress", "www"), ("unix:/run/php/php-fpm.sock", &*server)];
    let server = start("wordpress.toml", &folder, &replaced);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        for (path, status, content) in [
            ("/", 200, "GET /index.php () / "),
            ("/hello-world/?p=1", 200, "GET /index.php () /hello-world/?p=1 "),
            ("/wp-login.php", 200, "GET /wp-login.php () /wp-login.php "),
            ("/wp-admin/", 200, "GET /wp-admin/index.php () /wp-admin/ "),
            ("/wp-admin", 301, "301 this is a folder\n"),
            ("/wp-includes/app.css", 200, "body {}"),
            ("/wp-content/uploads/cat.jpg", 200, "cat"),
            ("/wp-content/uploads/cat.jpg/x.php", 403, ""),
            ("/wp-content/uploads/shell.php", 403, ""),
            ("/xmlrpc.php", 403, ""),
            ("/xmlrpc.php/", 403, ""),
            ("/xmlrpc.php/x", 403, ""),
            ("/wp-login.php/x", 200, "GET /wp-login.php (/x) /wp-login.php/x "),
        ] {
            let url = format!("https://www.example.com{path}");
            let (found, headers, body) = get(&mut session, &url, "identity").await;
            assert_eq!(found, status, "{path}");
            assert_eq!(String::from_utf8(body).unwrap(), content, "{path}");
            assert_eq!(headers["strict-transport-security"], "max-age=31536000");
        }
        let guess = "https://www.example.com/wp-login.php/x";
        let mut status = 200;
        for _ in 0..200 {
            (status, ..) = get(&mut session, guess, "identity").await;
            if status != 200 {
                break;
            }
        }
        assert_eq!(status, 429);
    });
}
