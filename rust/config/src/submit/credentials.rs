//! Step about credentials that go with a job: an X.509 proxy, a SciToken.

use crate::expr;
use crate::submit::job::{Done, Job};

/// Sets x509userproxy and ScitokensFile; all jobs of a cluster have the same.
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
