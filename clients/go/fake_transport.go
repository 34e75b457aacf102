package delayqueue

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// fakeTransport answers the requests of a Fake's queue, so that it runs the code of the real one.
type fakeTransport struct{ fake *Fake }

// RoundTrip answers a request.
func (t fakeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	t.fake.mu.Lock()
	defer t.fake.mu.Unlock()
	status, answer := t.fake.route(r, body)
	kind := "application/json"
	if refused, ok := answer.(*problem); ok {
		kind, status = "application/problem+json", refused.Status
	}
	data, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Status: strconv.Itoa(status), Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(bytes.NewReader(data)),
		ContentLength: int64(len(data)), Request: r}, nil
}

// route returns the status and the answer, which is a *problem if the request is refused.
func (f *Fake) route(r *http.Request, body []byte) (int, any) {
	path := strings.TrimPrefix(r.URL.Path, "/v1")
	id, isJob := cutPrefix(path, "/jobs/")
	topic, isTopic := cutPrefix(path, "/topics/")
	switch {
	case path == "/jobs":
		var put putRequest
		if err := json.Unmarshal(body, &put); err != nil {
			return 0, refuse(400, "invalid_json", "", err.Error())
		}
		return orProblem(f.put(&put))
	case path == "/batch/jobs":
		return f.putBatch(body)
	case isJob && r.Method == http.MethodGet:
		f.passTime()
		if job, ok := f.jobs[id]; ok {
			return 200, &job.StoredJob
		}
		return 0, refuse(404, "job_not_found", "", "no job has this id")
	case isJob && r.Method == http.MethodDelete:
		remember, _ := strconv.ParseFloat(r.URL.Query().Get("remember"), 64)
		result, refused := f.cancel(id, secondsToDuration(remember))
		return orProblem(200, result, refused)
	case isTopic && !strings.Contains(topic, "/"):
		return f.topic(r.Method, topic, body)
	}
	return 0, refuse(405, "method_not_allowed", "", "the fake runs jobs with RunDue, and does not take this request")
}

func orProblem[T any](status int, answer T, refused *problem) (int, any) {
	if refused != nil {
		return refused.Status, refused
	}
	return status, answer
}

func (f *Fake) putBatch(body []byte) (int, any) {
	var batch struct {
		Jobs []*putRequest `json:"jobs"`
	}
	if err := json.Unmarshal(body, &batch); err != nil {
		return 0, refuse(400, "invalid_json", "", err.Error())
	}
	var results []any
	for _, put := range batch.Jobs {
		status, result, refused := f.put(put)
		if refused != nil {
			results = append(results, refused)
			continue
		}
		results = append(results, struct {
			*PutResult
			Status int `json:"status"`
		}{result, status})
	}
	return 200, map[string]any{"results": results}
}

// topic returns a topic, after a PUT with new settings.
func (f *Fake) topic(method, name string, body []byte) (int, any) {
	if method == http.MethodPut {
		var settings TopicSettings
		if err := json.Unmarshal(body, &settings); err != nil {
			return 0, refuse(400, "invalid_json", "", err.Error())
		}
		if settings.DeadTo != "" {
			return 0, refuse(422, "invalid_field", "dead_to", "the fake does not move dead jobs; leave `dead_to` out")
		}
		f.settings[name] = settings
	}
	f.passTime()
	topic := Topic{Topic: name, Settings: f.settings[name]}
	counts := map[string]*int64{StateDelayed: &topic.Delayed, StateReady: &topic.Ready,
		StateReserved: &topic.Reserved, StateDead: &topic.Dead, StateFinished: &topic.Finished}
	for _, job := range f.jobs {
		if job.Topic == name {
			*counts[job.State]++
		}
	}
	return 200, topic
}
