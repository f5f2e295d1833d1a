//! Paths as they are asked for over the control socket, and as the configuration would have them.

use psmc_api::{PathSpec, RateLimit};

use crate::config::{
    DIRECTION, Direction, Endpoint, FIRST_FLOW, PathCongestion, PathSettings, Rate, TIER, Tier, Transport,
    ValueError, Weight,
};
use crate::quota::Quota;

/// The rate, if there is a limit.
///
/// # Errors
/// If the configuration would refuse it, too.
pub(super) fn rate(limit: RateLimit) -> Result<Option<Rate>, ValueError> {
    match limit {
        RateLimit::None => Ok(None),
        RateLimit::BitsPerSecond(bits) => Rate::from_bits_per_second(bits).map(Some),
    }
}

/// What is so called, of which a fixed rate is this limit.
///
/// # Errors
/// If there is no such thing, or no rate to be fixed.
pub(super) fn congestion(limit: Option<RateLimit>, name: &str) -> Result<PathCongestion, ValueError> {
    let rate = limit.map(rate).transpose()?.flatten();
    PathCongestion::new(name.parse()?, rate)
        .ok_or_else(|| ValueError::new("congestion = \"fixed\" needs a rate", "give it with --max-rate RATE"))
}

/// The path as the configuration would have it, with the peer's `endpoint` and `transport` where it has none of its own.
///
/// # Errors
/// The first value that the configuration would refuse, too.
pub(super) fn settings(
    spec: &PathSpec,
    endpoint: Option<&Endpoint>,
    transport: Transport,
) -> Result<PathSettings, ValueError> {
    let own = spec.endpoint.as_deref().map(str::parse::<Endpoint>).transpose()?;
    let endpoint = own.or_else(|| endpoint.cloned());
    if endpoint.is_none() && spec.relays.is_empty() {
        let reason =
            format!("the path \"{}\" leads nowhere: neither it nor its peer has an endpoint", spec.name);
        let remedy = "give it one with --endpoint HOST:PORT, or --relays if the peer registers with them";
        return Err(ValueError::new(reason, remedy));
    }
    let max_rate = spec.max_rate_bits_per_second.map(Rate::from_bits_per_second).transpose()?;
    let congestion = spec.congestion.as_deref().map(str::parse).transpose()?.unwrap_or_default();
    let congestion = PathCongestion::new(congestion, max_rate).ok_or_else(|| {
        let reason = format!("the path \"{}\" uses fixed congestion control, but has no rate", spec.name);
        ValueError::new(reason, "give it with --max-rate RATE")
    })?;
    let tier = spec.tier.as_deref().map(|name| TIER.read(name)).transpose()?.unwrap_or_default();
    let quota = spec.quota.as_deref().map(str::parse::<Quota>).transpose()?;
    quota.map(|quota| quota.check_tier(tier)).transpose()?;
    let direction = spec.direction.as_deref().map(|name| DIRECTION.read(name)).transpose()?;
    Ok(PathSettings {
        name: spec.name.parse()?,
        interface: spec.interface.as_deref().map(str::parse).transpose()?,
        address: spec.address.map(|address| address.to_string().parse()).transpose()?,
        endpoint,
        relays: spec.relays.iter().map(|name| name.parse()).collect::<Result<_, _>>()?,
        transport: spec.transport.as_deref().map_or(Ok(transport), carrier)?,
        flow: FIRST_FLOW,
        weight: spec
            .weight
            .map(|weight| weight.to_string().parse::<Weight>())
            .transpose()?
            .unwrap_or_default(),
        tier,
        direction: direction.unwrap_or_default(),
        quota,
        max_rate,
        congestion,
        mtu: spec.mtu.map(|mtu| mtu.to_string().parse()).transpose()?,
    })
}

/// What is so called, if a path that is added may have it.
fn carrier(name: &str) -> Result<Transport, ValueError> {
    match name.parse()? {
        Transport::IpIp => {
            let reason = "a path in IP-in-IP cannot be added while the daemon runs";
            Err(ValueError::new(reason, "write it into the configuration, then run `psmc reload`"))
        }
        transport @ (Transport::Udp | Transport::Tls | Transport::Auto) => Ok(transport),
    }
}

/// What describes this path of a peer with this `endpoint` and `transport`.
pub(super) fn spec(settings: &PathSettings, endpoint: Option<&Endpoint>, transport: Transport) -> PathSpec {
    let own = settings.endpoint.as_ref().filter(|own| Some(*own) != endpoint);
    let congestion = match settings.congestion {
        PathCongestion::Model => None,
        PathCongestion::Cubic => Some("cubic"),
        PathCongestion::Fixed(_) => Some("fixed"),
    };
    PathSpec {
        name: settings.name.to_string(),
        interface: settings.interface.as_ref().map(ToString::to_string),
        address: settings.address.map(|address| address.get()),
        relays: settings.relays.iter().map(ToString::to_string).collect(),
        endpoint: own.map(ToString::to_string),
        weight: (settings.weight != Weight::default()).then_some(settings.weight.get()),
        tier: (settings.tier != Tier::default()).then(|| settings.tier.name().to_owned()),
        direction: (settings.direction != Direction::Both).then(|| settings.direction.name().to_owned()),
        quota: settings.quota.map(|quota| quota.spelt()),
        transport: (settings.transport != transport).then(|| settings.transport.as_str().to_owned()),
        max_rate_bits_per_second: settings.max_rate.map(|rate| rate.bits_per_second()),
        mtu: settings.mtu.map(|mtu| mtu.get()),
        congestion: congestion.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_checked_like_the_file() {
        assert_eq!(rate(RateLimit::None), Ok(None));
        for bits in [0, 15_999, u64::MAX] {
            let limit = RateLimit::BitsPerSecond(bits);
            assert!(rate(limit).is_err() && congestion(Some(limit), "fixed").is_err(), "{bits}");
        }
        assert!(congestion(Some(RateLimit::None), "fixed").is_err());
    }

    #[test]
    fn a_spec_is_checked_like_the_file() {
        let peer: Endpoint = "hq:5115".parse().unwrap();
        let spec = PathSpec { name: "lte".to_owned(), weight: Some(3), ..PathSpec::default() };
        let read = settings(&spec, Some(&peer), Transport::Udp).unwrap();
        assert_eq!((read.endpoint, read.weight.get()), (Some(peer.clone()), 3));

        assert!(settings(&spec, None, Transport::Udp).is_err());
        let relayed = PathSpec { relays: vec!["fra1".to_owned()], ..spec.clone() };
        assert_eq!(settings(&relayed, None, Transport::Udp).unwrap().endpoint, None);
        for weight in [0, 60_000] {
            assert!(
                settings(&PathSpec { weight: Some(weight), ..spec.clone() }, Some(&peer), Transport::Udp)
                    .is_err()
            );
        }
        assert!(
            settings(
                &PathSpec { max_rate_bits_per_second: Some(0), ..spec.clone() },
                Some(&peer),
                Transport::Udp
            )
            .is_err()
        );
        let fixed = PathSpec { congestion: Some("fixed".to_owned()), ..spec.clone() };
        assert!(settings(&fixed, Some(&peer), Transport::Udp).is_err());
        let fixed = PathSpec { max_rate_bits_per_second: Some(20_000_000), ..fixed };
        let read = settings(&fixed, Some(&peer), Transport::Udp).unwrap();
        assert_eq!(read.congestion, PathCongestion::Fixed("20mbit".parse().unwrap()));
        assert_eq!(super::spec(&read, Some(&peer), Transport::Udp), fixed);
        assert_eq!(super::spec(&read, None, Transport::Udp).endpoint.as_deref(), Some("hq:5115"));
        let spare = PathSpec {
            quota: Some("50GB/month/12,backup".to_owned()),
            tier: Some("secondary".to_owned()),
            direction: Some("up".to_owned()),
            ..spec.clone()
        };
        assert_eq!(
            super::spec(&settings(&spare, Some(&peer), Transport::Udp).unwrap(), Some(&peer), Transport::Udp),
            spare
        );
        let streamed = PathSpec { transport: Some("auto".to_owned()), ..spec.clone() };
        assert_eq!(
            super::spec(
                &settings(&streamed, Some(&peer), Transport::Tls).unwrap(),
                Some(&peer),
                Transport::Tls
            ),
            streamed
        );
        assert_eq!(settings(&spec, Some(&peer), Transport::Tls).unwrap().transport, Transport::Tls);
        let wrapped = PathSpec { transport: Some("ipip".to_owned()), ..spec.clone() };
        assert!(settings(&wrapped, Some(&peer), Transport::Udp).is_err());
        let spared = PathSpec { tier: Some("backup".to_owned()), ..spare };
        assert!(settings(&spared, Some(&peer), Transport::Udp).is_err());
        assert!(settings(&PathSpec { name: "a/b".to_owned(), ..spec }, Some(&peer), Transport::Udp).is_err());
    }
}
