package delayqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

const (
	// Largest number of jobs that the server takes in a batch.
	maxBatchJobs = 1000
	// Largest body of a batch of puts. The server takes 8 MiB by default.
	maxPutBytes = 4 << 20
	// Largest body of a batch of acknowledgements.
	maxAcknowledgeBytes = 1 << 20
)

// encodeBatch encodes as many of the n items as fit into maxBytes, at least one, and returns their
// number.
func encodeBatch(n, maxBytes int, item func(i int) any) ([]byte, int, error) {
	var buffer bytes.Buffer
	buffer.WriteString(`{"jobs":[`)
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	count := 0
	for ; count < n && count < maxBatchJobs; count++ {
		before := buffer.Len()
		if count > 0 {
			buffer.WriteByte(',')
		}
		if err := encoder.Encode(item(count)); err != nil {
			return nil, 0, err
		}
		if count > 0 && buffer.Len() > maxBytes {
			buffer.Truncate(before)
			break
		}
	}
	buffer.WriteString("]}")
	return buffer.Bytes(), count, nil
}

// batchAnswer is the result of one item of a batch: the answer for a single job, or a problem.
type batchAnswer struct {
	status int
	raw    json.RawMessage
}

func (a *batchAnswer) UnmarshalJSON(data []byte) error {
	var s struct {
		Status int `json:"status"`
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	a.status = s.Status
	a.raw = append(a.raw[:0], data...)
	return nil
}

// into decodes a success into answer, unless that is nil, and returns any other result as an error.
func (a *batchAnswer) into(answer any) error {
	if a.status >= 200 && a.status <= 299 {
		if answer == nil {
			return nil
		}
		return json.Unmarshal(a.raw, answer)
	}
	var p problem
	if err := json.Unmarshal(a.raw, &p); err != nil {
		return err
	}
	return p.refused()
}

// sendBatch makes one attempt and returns a result for each of the n items.
func (q *Queue) sendBatch(
	ctx context.Context, path string, body []byte, n int,
) ([]batchAnswer, error) {
	var answer struct {
		Results []batchAnswer `json:"results"`
	}
	if err := q.send(ctx, request{http.MethodPost, path, body, answerTimeout}, &answer); err != nil {
		return nil, err
	}
	if len(answer.Results) != n {
		return nil, wrongNumber(q.url, len(answer.Results), n)
	}
	return answer.Results, nil
}

func wrongNumber(url string, results, jobs int) error {
	return &ProtocolError{URL: url, Status: http.StatusOK, Detail: fmt.Sprintf(
		"it has %d results for %d jobs", results, jobs)}
}
