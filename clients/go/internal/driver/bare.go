package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
)

// bare pops and finishes jobs with net/http alone, which the worker is compared with.
func bare(c *command) error {
	base, token := os.Getenv("DELAY_QUEUE_URL"), os.Getenv("DELAY_QUEUE_TOKEN")
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = c.Concurrency
	loop := &bareLoop{client: &http.Client{Transport: transport}, base: base, token: token, topic: c.Topic}
	loop.left.Store(int64(c.Jobs))
	failures := make(chan error, c.Concurrency)
	var loops sync.WaitGroup
	for i := 0; i < c.Concurrency; i++ {
		loops.Add(1)
		go func() {
			defer loops.Done()
			for loop.left.Load() > 0 {
				if err := loop.popAndFinish(); err != nil {
					failures <- err
					return
				}
			}
		}()
	}
	loops.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

type bareLoop struct {
	client             *http.Client
	base, token, topic string
	left               atomic.Int64
}

func (l *bareLoop) popAndFinish() error {
	var popped struct {
		Jobs []struct {
			ID          string          `json:"id"`
			Body        json.RawMessage `json:"body"`
			Reservation string          `json:"reservation"`
		} `json:"jobs"`
	}
	if err := l.call(http.MethodGet, "/topics/"+l.topic+"/pop?count=1&wait=1s", nil, &popped); err != nil {
		return err
	}
	for _, job := range popped.Jobs {
		body, _ := json.Marshal(map[string]string{"reservation": job.Reservation})
		if err := l.call(http.MethodPost, "/jobs/"+job.ID+"/finish", body, nil); err != nil {
			return err
		}
		l.left.Add(-1)
	}
	return nil
}

func (l *bareLoop) call(method, path string, body []byte, answer any) error {
	request, err := http.NewRequest(method, l.base+"/v1"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if l.token != "" {
		request.Header.Set("Authorization", "Bearer "+l.token)
	}
	response, err := l.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode > 299 {
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, data)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(data, answer)
}
