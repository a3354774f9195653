//! Orders of certificates (RFC 8555 §7.4).

use std::path::Path;
use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Identifier, NewOrder,
    Order, OrderStatus, RetryPolicy,
};
use sluicegate_base::observe::acme::AcmeFailure;
use sluicegate_config::AcmeChallenge;

use super::dns::{HookAction, TxtRecord, run_hook};
use super::error::{AcmeError, is_about_nonces};
use super::issued::Issued;
use super::store::{AcmeStore, Lock, Published};

/// Time for the authority to check the challenges, and to issue the certificate.
const LIMIT: Duration = Duration::from_secs(120);

/// Certificate that is wanted.
pub(super) struct Wanted<'a> {
    pub(super) names: &'a [String],
    /// Ways to prove the names, the preferred one first.
    pub(super) challenges: &'a [AcmeChallenge],
    pub(super) dns: Option<DnsSettings<'a>>,
    /// Certificate that it replaces (RFC 9773 §5).
    pub(super) replaces: Option<CertificateIdentifier<'static>>,
}

/// Settings by which records are set in the DNS.
#[derive(Clone, Copy, Debug)]
pub(super) struct DnsSettings<'a> {
    /// Program that adds and removes records.
    pub(super) hook: &'a Path,
    /// Time until every name server of the zone has a record.
    pub(super) delay: Duration,
}

/// Proofs that the authority can see, until it has decided.
#[derive(Debug, Default)]
struct Proofs {
    published: Vec<Published>,
    /// Records in the DNS, with the names that they prove, as the authority writes them.
    records: Vec<(String, TxtRecord)>,
}

impl Proofs {
    /// Takes the proofs away.
    async fn withdraw(self, dns: Option<DnsSettings<'_>>) {
        let Some(dns) = dns else {
            return;
        };
        for (_, record) in &self.records {
            if let Err(error) = run_hook(dns.hook, HookAction::CleanUp, record).await {
                tracing::warn!(%error, "a DNS record was not removed");
            }
        }
    }
}

/// Obtains a certificate. Returns its chain with its key, PEM.
pub(super) async fn obtain(
    account: &Account,
    wanted: &Wanted<'_>,
    store: &AcmeStore,
    lock: &Lock,
) -> Result<String, AcmeError> {
    let mut order = begin(account, wanted).await?;
    let policy = RetryPolicy::new().timeout(LIMIT).backoff(1.5);
    let mut proofs = Proofs::default();
    let proved = prove(&mut order, wanted, &mut proofs, store, lock).await;
    let ready = match proved {
        Ok(()) => Ok(order.poll_ready(&policy).await),
        Err(error) => Err(error),
    };
    proofs.withdraw(wanted.dns).await;
    match ready? {
        Ok(OrderStatus::Ready | OrderStatus::Valid) => {}
        Ok(status) => return Err(refusal(&mut order, format!("the order is {status:?}")).await),
        Err(error) if is_about_nonces(&error) => return Err(error.into()),
        Err(instant_acme::Error::Api(problem)) => {
            return Err(refusal(&mut order, problem.to_string()).await);
        }
        Err(error) => return Err(error.into()),
    }
    let key = order.finalize().await?;
    let chain = order.poll_certificate(&policy).await?;
    let pem = format!("{key}{chain}");
    if Issued::read(&pem, wanted.names).is_none() {
        let cause = "the certificate that was issued is not for these names or this key";
        return Err(AcmeError::new(AcmeFailure::Refused, cause));
    }
    Ok(pem)
}

/// Begins an order. An authority that does not know the certificate that it replaces is not told of it.
async fn begin(account: &Account, wanted: &Wanted<'_>) -> Result<Order, AcmeError> {
    let names = wanted.names.iter().cloned().map(Identifier::Dns);
    let names: Vec<Identifier> = names.collect();
    if let Some(replaces) = wanted.replaces.clone() {
        let order = NewOrder::new(&names).replaces(replaces);
        match account.new_order(&order).await {
            Ok(order) => return Ok(order),
            Err(error) => tracing::debug!(%error, "the ACME directory accepts no replacement"),
        }
    }
    let order = account.new_order(&NewOrder::new(&names)).await;
    order.map_err(AcmeError::of_new_order)
}

/// Lets the authority check each name that it has not checked lately.
async fn prove(
    order: &mut Order,
    wanted: &Wanted<'_>,
    proofs: &mut Proofs,
    store: &AcmeStore,
    lock: &Lock,
) -> Result<(), AcmeError> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        match authorization.status {
            AuthorizationStatus::Pending => {}
            AuthorizationStatus::Valid => continue,
            status => {
                let cause = format!("the authorization is {status:?}");
                return Err(AcmeError::new(AcmeFailure::Refused, cause));
            }
        }
        let name = authorization.identifier().to_string();
        let offered = |kind: &&AcmeChallenge| {
            let offered = authorization.challenges.iter();
            offered.map(|one| &one.r#type).any(|one| *one == kind_of(**kind))
        };
        let chosen = wanted.challenges.iter().find(offered).copied();
        let chosen = chosen.and_then(|kind| Some((kind, authorization.challenge(kind_of(kind))?)));
        let Some((kind, mut challenge)) = chosen else {
            let cause = format!("the authority offers none of acme.challenges for {name}");
            return Err(AcmeError::new(AcmeFailure::Challenge, cause));
        };
        let authorized = challenge.key_authorization();
        if let (AcmeChallenge::Dns01, Some(dns)) = (kind, wanted.dns) {
            let record = TxtRecord::new(domain(&name), authorized.dns_value());
            // Even a program that failed may have added it.
            proofs.records.push((name, record.clone()));
            run_hook(dns.hook, HookAction::Present, &record).await?;
            continue;
        }
        let (token, authorization) = (challenge.token.as_str(), authorized.as_str());
        proofs.published.push(store.publish(kind, &name, token, authorization, lock)?);
        challenge.set_ready().await?;
    }
    match wanted.dns {
        Some(dns) if !proofs.records.is_empty() => have_records_checked(order, dns, proofs).await,
        _ => Ok(()),
    }
}

/// Lets the authority look for the records, all at once when name servers have them: a wildcard and its domain have one name in the DNS.
async fn have_records_checked(
    order: &mut Order,
    dns: DnsSettings<'_>,
    proofs: &Proofs,
) -> Result<(), AcmeError> {
    tokio::time::sleep(dns.delay).await;
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        let name = authorization.identifier().to_string();
        if proofs.records.iter().any(|(proved, _)| *proved == name)
            && let Some(mut challenge) = authorization.challenge(ChallengeType::Dns01)
        {
            challenge.set_ready().await?;
        }
    }
    Ok(())
}

/// Returns the domain whose record proves a name.
fn domain(name: &str) -> &str {
    name.strip_prefix("*.").unwrap_or(name)
}

/// Returns the challenges with another one first after each failure.
pub(super) fn turned(challenges: &[AcmeChallenge], failures: u32) -> Vec<AcmeChallenge> {
    let mut turned = challenges.to_vec();
    let by = usize::try_from(failures).unwrap_or(0) % turned.len().max(1);
    turned.rotate_left(by);
    turned
}

fn kind_of(challenge: AcmeChallenge) -> ChallengeType {
    match challenge {
        AcmeChallenge::Http01 => ChallengeType::Http01,
        AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        AcmeChallenge::Dns01 => ChallengeType::Dns01,
    }
}

/// Returns why an order was refused: what the authority says about its challenges, or else about the order.
async fn refusal(order: &mut Order, about_order: String) -> AcmeError {
    let mut causes = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let _ = authorization.refresh().await;
        let name = authorization.identifier().to_string();
        for challenge in &authorization.challenges {
            if let Some(problem) = &challenge.error {
                causes.push(format!("{:?} for {name}: {problem}", challenge.r#type));
            }
        }
    }
    if causes.is_empty() {
        return AcmeError::new(AcmeFailure::Refused, about_order);
    }
    AcmeError::new(AcmeFailure::Challenge, causes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_another_challenge_tried_first() {
        let both = [AcmeChallenge::TlsAlpn01, AcmeChallenge::Http01];
        assert_eq!(turned(&both, 0), both);
        assert_eq!(turned(&both, 1), [both[1], both[0]]);
        assert_eq!(turned(&both, 2), both);
        assert_eq!(turned(&both[..1], 3), both[..1]);
    }
}
