use bytes::Bytes;
use http::{HeaderMap, HeaderValue};

use super::*;

fn answer(content_type: Option<&'static str>, body: &[u8]) -> Answer {
    let mut headers = HeaderMap::new();
    if let Some(name) = content_type {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(name));
    }
    let body = Bytes::copy_from_slice(body);
    Answer { status: StatusCode::OK, headers, body, is_whole: true, is_public: true }
}

/// Returns the status of each job that a report names, in the order of their ids; `None` if it is
/// unusable. Panics if there is no report.
fn statuses(answer: &Answer) -> Option<Vec<u16>> {
    match Report::read(answer) {
        Report::Absent => panic!("no report: {answer:?}"),
        Report::Unusable(_) => None,
        Report::Results(results) => {
            let mut all: Vec<_> = results.into_values().collect();
            all.sort_by(|a, b| a.id.cmp(&b.id));
            Some(all.into_iter().map(|one| one.status).collect())
        }
    }
}

#[test]
fn a_report_that_cannot_be_read_accepts_nothing() {
    let utf16: Vec<u8> =
        "\u{feff}{\"results\":[]}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let forms: [&[u8]; 15] = [
        b"{\"results\":[{\"id\":\"a\",\"status\":200,\"error\":\"Pr\xfcfung\"}]}",
        b"{\"text\":\"\xff\",\"results\":[{\"id\":\"a\",\"status\":200}]}",
        b"{\"results\":[{\"id\":\"a\",\"status\":200},]}",
        b"{\"results\":[{\"id\":\"a\",\"status\":200}],\"err",
        b"{\"results\":[],\"results\":[{\"id\":\"a\",\"status\":200}]}",
        b"[{\"id\":\"a\",\"status\":200}]",
        b"{\"took\":NaN,\"results\":[{\"id\":\"a\",\"status\":200}]}",
        b"{\"results\":[{\"id\":\"a\",\"status\":200}]}\n{\"x\":1}",
        b"\n {\"ok\":true}",
        b"{\"results\":null}",
        b"{\"results\":{}}",
        b"{\"results\":7}",
        b"{}",
        b"[]",
        &utf16,
    ];
    for form in forms {
        for kind in [None, Some("application/json"), Some("text/plain")] {
            let text = String::from_utf8_lossy(form);
            assert_eq!(statuses(&answer(kind, form)), None, "{kind:?} {text}");
        }
    }
    for body in ["", "null", "true", "\"ok\"", "OK"] {
        for kind in ["application/json", "Application/Problem+JSON; charset=utf-8", "text/json"] {
            assert_eq!(statuses(&answer(Some(kind), body.as_bytes())), None, "{kind} {body:?}");
        }
    }
}

#[test]
fn a_body_that_is_no_report_accepts_all() {
    for body in ["", "OK", "<html>", "null", "\u{feff}ok", "1", "\"{\""] {
        for kind in [None, Some("text/plain"), Some("text/html"), Some("application/jsonp")] {
            let read = Report::read(&answer(kind, body.as_bytes()));
            assert!(matches!(read, Report::Absent), "{kind:?} {body:?}");
        }
    }
    let none = answer(Some("application/json"), b"");
    let none = Answer { status: StatusCode::NO_CONTENT, ..none };
    assert!(matches!(Report::read(&none), Report::Absent));
}

#[test]
fn results_are_read_one_by_one() {
    let text = "\u{feff} {\"debug\":[[[]]],\"results\":[{\"id\":\"a\",\"status\":200},[\"b\",200],\
                {\"id\":\"c\",\"status\":500},7,{\"id\":\"d\"},{\"id\":\"e\",\"status\":1,\"status\":200}]}";
    assert_eq!(statuses(&answer(None, text.as_bytes())), Some(vec![200, 500]));
    let twice = |first, second| {
        let text = format!(
            "{{\"results\":[{{\"id\":\"a\",\"status\":{first}}},{{\"id\":\"a\",\"status\":{second}}}]}}"
        );
        statuses(&answer(None, text.as_bytes()))
    };
    assert_eq!((twice(200, 500), twice(500, 200)), (Some(vec![500]), Some(vec![500])));
}

#[test]
fn a_report_that_broke_off_has_the_results_before_its_end() {
    let whole = "{\"results\":[{\"id\":\"a\",\"status\":200},{\"id\":\"b\",\"status\":500,\"error\":\"é\"}]}";
    for end in 0..whole.len() {
        let cut = Answer { is_whole: false, ..answer(None, &whole.as_bytes()[..end]) };
        let known = match Report::read(&cut) {
            Report::Absent => panic!("{end}"),
            Report::Unusable(_) => 0,
            Report::Results(results) => results.len(),
        };
        let ended = whole[..end.min(whole.find('é').unwrap_or(end))].matches('}').count();
        let ended = ended + usize::from(end > whole.find("\"}]").unwrap_or(end) + 1);
        assert_eq!(known, ended, "{end}");
    }
    let html = Answer { is_whole: false, ..answer(None, b"<html>") };
    assert!(matches!(Report::read(&html), Report::Absent));
}
