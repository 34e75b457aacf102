//! The two text formats of metrics.
//!
//! `prometheus_client` writes OpenMetrics. A monitor that does not request OpenMetrics gets the
//! older format of Prometheus. Both have the same samples; only the comments differ.

pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
pub const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns whether the `Accept` header of a request includes OpenMetrics.
pub fn accepts_open_metrics(accept: &str) -> bool {
    let is_open_metrics =
        |kind: &str| kind.trim_start().starts_with("application/openmetrics-text");
    accept.split(',').any(is_open_metrics)
}

/// Converts OpenMetrics to the format of Prometheus. There, a comment names a family exactly as its
/// samples do, such as `jobs_total`, and an info is a gauge.
pub fn prometheus(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len() + 1024);
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            if let Some((_, help)) = help.take() {
                text.extend(["# HELP ", name, suffix, " ", help, "\n"]);
            }
            text.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with("# ") {
            text.extend([line, "\n"]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_is_sent_only_on_request() {
        let prometheus = "application/openmetrics-text;version=1.0.0,\
                          application/openmetrics-text;version=0.0.1;q=0.75,text/plain;q=0.5";
        assert!(accepts_open_metrics(prometheus));
        assert!(accepts_open_metrics("text/plain, application/openmetrics-text"));
        for other in ["", "*/*", "text/plain;version=0.0.4"] {
            assert!(!accepts_open_metrics(other), "{other}");
        }
    }

    #[test]
    fn prometheus_comments_name_families_like_their_samples() {
        let open_metrics = "# HELP a Jobs, put.\n# TYPE a counter\na_total 1\n\
                            # HELP b_seconds Time.\n# TYPE b_seconds gauge\n\
                            # UNIT b_seconds seconds\nb_seconds{x=\"# TYPE\"} 2.5\n\
                            # HELP c Build.\n# TYPE c info\nc_info{v=\"1\"} 1\n# EOF\n";
        let expected = "# HELP a_total Jobs, put.\n# TYPE a_total counter\na_total 1\n\
                        # HELP b_seconds Time.\n# TYPE b_seconds gauge\n\
                        b_seconds{x=\"# TYPE\"} 2.5\n\
                        # HELP c_info Build.\n# TYPE c_info gauge\nc_info{v=\"1\"} 1\n";
        assert_eq!(prometheus(open_metrics), expected);
    }
}
