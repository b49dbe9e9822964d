"""Actors in processes of their own play a bandit with the learner's variables and put what they saw into its queue."""

import multiprocessing
import socket
import sys

import numpy as np

ARMS, BATCH = [0.1, 0.5, 0.9], 16


def model():
    import tensorflow as tf

    with tf.device("/job:learner"):
        queue = tf.FIFOQueue(64, [tf.int32, tf.float32], [[], []], shared_name="seen")
        logits = tf.get_variable("logits", [len(ARMS)], initializer=tf.zeros_initializer())
    return queue, logits


def act(address, seed):
    import tensorflow as tf

    queue, logits = model()
    policy = tf.nn.softmax(logits)
    action, reward = tf.placeholder(tf.int32, []), tf.placeholder(tf.float32, [])
    put = queue.enqueue([action, reward])
    random = np.random.RandomState(seed)
    with tf.Session("grpc://" + address) as sess:
        try:
            while True:
                probabilities = sess.run(policy).astype(np.float64)
                arm = random.choice(len(ARMS), p=probabilities / probabilities.sum())
                sess.run(put, {action: arm, reward: float(random.rand() < ARMS[arm])})
        except (tf.errors.CancelledError, tf.errors.AbortedError, tf.errors.UnavailableError):
            pass


def free_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % free.getsockname()[1]


def learn():
    import tensorflow.train

    tf = tensorflow
    address = sys.argv[1] if sys.argv[1:] else free_address()
    server = tf.train.Server({"learner": [address]}, job_name="learner", task_index=0)
    queue, logits = model()
    actions, rewards = queue.dequeue_many(BATCH)
    chosen = tf.reduce_sum(tf.one_hot(actions, len(ARMS)) * tf.nn.log_softmax(logits), 1)
    baseline = tf.reduce_mean(rewards)
    loss = -tf.reduce_mean(chosen * tf.stop_gradient(rewards - baseline))
    train = tf.train.AdamOptimizer(0.1).minimize(loss)
    close = queue.close(cancel_pending_enqueues=True)
    with tf.Session(server.target) as sess:
        sess.run(tf.global_variables_initializer())
        context = multiprocessing.get_context("spawn")
        actors = [context.Process(target=act, args=(address, seed)) for seed in range(2)]
        for each in actors:
            each.start()
        for _ in range(60):
            sess.run(train)
        print("best arm", int(np.argmax(sess.run(logits))))
        sess.run(close)
        for each in actors:
            each.join(60)
        print("actors ended", [each.exitcode for each in actors])


if __name__ == "__main__":
    learn()
