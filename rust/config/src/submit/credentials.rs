//! Step about credentials that go with a job: an X.509 proxy, a SciToken, tokens that the access point keeps.

use std::collections::BTreeMap;

use crate::expr;
use crate::submit::job::{Done, Job};

/// Sets x509userproxy, ScitokensFile, OAuthServicesNeeded and OAuthRequests; all jobs of a cluster have the same.
pub fn credentials(job: &mut Job<'_>) -> Done {
    let proxy = match job.command("x509userproxy", "x509userproxy")? {
        Some(path) => Some(path),
        None if job.truth("use_x509userproxy", "", false)? => Some(usual_proxy(job)),
        None => None,
    };
    if let Some(path) = proxy {
        let path = job.full_path(&path);
        job.put_text("x509userproxy", &path);
    }
    if let Some(path) = scitoken(job)? {
        let path = job.full_path(&path);
        job.put_text("ScitokensFile", &path);
    }
    services(job)
}

/// What a description may say of a credential, and the word for it in OAuthRequests.
const WISHES: [(&str, &str); 3] = [
    ("_oauth_permissions", "scopes"),
    ("_oauth_resource", "audience"),
    ("_oauth_options", "options"),
];

/// Whether a text may be the name of a service or of a handle: it becomes a part of the name of a file.
fn names_credential(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-+=_.".contains(c);
    !text.is_empty() && !text.starts_with('.') && text.chars().all(plain)
}

/// Sets OAuthServicesNeeded: the services of use_oauth_services with commas between them, each with its handles
/// (`service*handle`) where commands such as `service_oauth_permissions_handle` give it some. What those commands ask
/// for is in OAuthRequests, for the access point: `service&handle=H&scopes=A,B&audience=C`, with blanks between.
fn services(job: &mut Job<'_>) -> Done {
    const COMMAND: &str = "use_oauth_services";
    let Some(text) = job.command(COMMAND, "UseOAuthServices")? else {
        return Ok(());
    };
    let mut enabled: BTreeMap<String, String> = BTreeMap::new();
    for name in text.split([',', ' ', '\t', '\n', '\r']) {
        if name.is_empty() {
            continue;
        }
        if !names_credential(name) {
            let message = format!("{COMMAND} names {name:?}, which cannot be a service");
            let hint = "names of services have letters, digits, and any of - + = _ . within";
            return Err(job.bad(COMMAND, message, hint));
        }
        enabled
            .entry(name.to_ascii_lowercase())
            .or_insert_with(|| name.to_owned());
    }
    let keys: Vec<String> = job
        .scope
        .set
        .entries()
        .iter()
        .map(|entry| entry.name.to_string())
        .collect();
    // By service and handle in lower case: their spelling, and the wishes.
    let mut needed: BTreeMap<String, (String, String, Vec<String>)> = BTreeMap::new();
    let mut with_handles: Vec<String> = Vec::new();
    for key in &keys {
        let lower = key.to_ascii_lowercase();
        if lower.starts_with('+') || lower.starts_with("my.") {
            continue;
        }
        let Some((at, wish, word)) = WISHES
            .iter()
            .find_map(|(wish, word)| Some((lower.find(wish)?, wish, word)))
        else {
            continue;
        };
        let Some(service) = enabled.get(&lower[..at]) else {
            continue;
        };
        let rest = &key[at + wish.len()..];
        let handle = rest.strip_prefix('_').unwrap_or(rest);
        if !rest.is_empty() {
            if !names_credential(handle) {
                let message = format!("{key} names {handle:?}, which cannot be a handle");
                let hint = "handles have letters, digits, and any of - + = _ . within";
                return Err(job.bad(key, message, hint));
            }
            with_handles.push(service.to_ascii_lowercase());
        }
        let star = if handle.is_empty() { "" } else { "*" };
        let place = format!("{service}{star}{handle}").to_ascii_lowercase();
        let value = job.command(key, "")?.unwrap_or_default();
        let words: Vec<&str> = value
            .split([',', ' ', '\t', '\n', '\r'])
            .filter(|part| !part.is_empty())
            .collect();
        if value.contains(['&', '"']) {
            let hint = "scopes and audiences have none";
            return Err(job.bad(key, format!("{key} has a character & or \""), hint));
        }
        let (_, _, wishes) = needed
            .entry(place)
            .or_insert_with(|| (service.clone(), handle.to_owned(), Vec::new()));
        if !words.is_empty() {
            wishes.push(format!("&{word}={}", words.join(",")));
        }
    }
    for (lower, service) in &enabled {
        if !with_handles.contains(lower) {
            needed
                .entry(lower.clone())
                .or_insert_with(|| (service.clone(), String::new(), Vec::new()));
        }
    }
    let mut names: Vec<String> = Vec::new();
    let mut requests: Vec<String> = Vec::new();
    for (service, handle, wishes) in needed.values() {
        let (star, named) = if handle.is_empty() {
            ("", String::new())
        } else {
            ("*", format!("&handle={handle}"))
        };
        names.push(format!("{service}{star}{handle}"));
        if !wishes.is_empty() {
            requests.push(format!("{service}{named}{}", wishes.concat()));
        }
    }
    if !names.is_empty() {
        job.put_text("OAuthServicesNeeded", &names.join(","));
    }
    if !requests.is_empty() {
        job.put_text("OAuthRequests", &requests.join(" "));
    }
    Ok(())
}

/// Where a user's proxy is when nobody says otherwise.
fn usual_proxy(job: &Job<'_>) -> String {
    let named = job.scope.world.env("X509_USER_PROXY");
    named
        .filter(|path| !path.is_empty())
        .unwrap_or_else(|| format!("/tmp/x509up_u{}", job.facts.uid))
}

/// The file of the token that the job wants, if it wants one.
fn scitoken(job: &Job<'_>) -> Result<Option<String>, crate::ConfigError> {
    let file = job.command("scitokens_file", "ScitokensFile")?;
    let of_user = || {
        let path = job.scope.world.env("BEARER_TOKEN_FILE");
        path.filter(|path| !path.is_empty())
    };
    let asked = match job.command("use_scitokens", "")? {
        Some(text) => Some(text),
        None => job.command("use_scitoken", "")?,
    };
    let Some(asked) = asked else {
        return Ok(file);
    };
    if asked.trim().eq_ignore_ascii_case("auto") {
        return Ok(file.or_else(of_user));
    }
    match expr::boolean(&asked, "CondorBool") {
        Some(false) => Ok(None),
        Some(true) => file.or_else(of_user).map(Some).ok_or_else(|| {
            let message = "use_scitokens is set, and no token is named";
            let hint =
                "name it with scitokens_file, or in the environment variable BEARER_TOKEN_FILE";
            job.bad("use_scitokens", message, hint)
        }),
        None => {
            let message = format!("use_scitokens = {asked} is invalid");
            Err(job.bad("use_scitokens", message, "write true, false, or auto"))
        }
    }
}
