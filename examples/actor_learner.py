"""Actors play, a learner with an LSTM learns from what they send through a shared queue.

    headrace serve --cluster local=localhost:2222 --job local
    python examples/actor_learner.py grpc://localhost:2222 [ACTORS [UPDATES]]

The game: one of four signs is shown for a moment, then nothing for some steps, then the player has to
name it.  Only who remembers wins, so the policy is an LSTM.  Each actor has a session of its own; it
runs the policy step by step, with the state of the LSTM in its hands, and sends whole games ("unrolls")
to the queue.  The learner takes them from there, runs the same cell along time by tf.nn.dynamic_rnn and
follows the gradient of the policy; its variables are those that the actors read.  When 95 % of the games
are won, it closes the queue, which is what ends the actors.
"""

import sys
import threading

import numpy as np

import headrace as tf

SIGNS = 4  # that a game may begin with
STEPS = 5  # of a game
GAMES = 16  # that an actor plays at a time
UNITS = 24
ENTROPY = 0.1  # what it is worth to keep trying all signs


def policy():
    """The cell and the function from its outputs to logits of the sign and the value of the game."""
    cell = tf.nn.rnn_cell.LSTMCell(UNITS, name="memory")

    def head(outputs):
        with tf.variable_scope("head", reuse=tf.AUTO_REUSE):
            logits = tf.layers.dense(outputs, SIGNS, name="sign")
            return logits, tf.squeeze(tf.layers.dense(outputs, 1, name="value"), -1)

    return cell, head


def build():
    """What an actor runs, and what the learner does."""
    cell, head = policy()
    seen = tf.placeholder(tf.float32, [GAMES, SIGNS], name="seen")
    state = tf.nn.rnn_cell.LSTMStateTuple(
        *(tf.placeholder(tf.float32, [GAMES, UNITS], name=name) for name in ("c", "h"))
    )
    outputs, new_state = cell(seen, state)
    logits, _ = head(outputs)
    chosen = tf.squeeze(tf.multinomial(logits, 1, output_dtype=tf.int32), -1)

    queue = tf.FIFOQueue(
        2, [tf.float32, tf.int32, tf.float32], shapes=[[GAMES, STEPS, SIGNS], [GAMES], [GAMES]],
        shared_name="unrolls", name="unrolls",
    )  # fmt: skip
    parts = zip(queue.dtypes, queue.shapes, strict=True)
    unroll = [tf.placeholder(kind, shape) for kind, shape in parts]
    actor = {
        "seen": seen, "state": state, "new_state": new_state, "chosen": chosen, "unroll": unroll,
        "enqueue": queue.enqueue(unroll),
    }  # fmt: skip

    games, signs, rewards = queue.dequeue()
    outputs, _ = tf.nn.dynamic_rnn(cell, games, dtype=tf.float32)
    logits, values = head(outputs[:, -1])
    better = tf.stop_gradient(rewards - values)
    surprise = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=signs, logits=logits)
    entropy = -tf.reduce_sum(tf.nn.softmax(logits) * tf.nn.log_softmax(logits), -1)
    loss = tf.reduce_mean(better * surprise + 0.5 * tf.square(rewards - values) - ENTROPY * entropy)
    step = tf.train.AdamOptimizer(0.01).minimize(loss)
    return actor, (step, tf.reduce_mean(rewards)), queue.close(cancel_pending_enqueues=True)


def play(sess, actor, random):
    """A game each of GAMES players: what was seen, what was named, who won."""
    signs = random.integers(SIGNS, size=GAMES)
    games = np.zeros([GAMES, STEPS, SIGNS], np.float32)
    games[np.arange(GAMES), 0, signs] = 1
    state = (np.zeros([GAMES, UNITS], np.float32),) * 2
    for at in range(STEPS):
        feeds = {actor["seen"]: games[:, at], actor["state"]: state}
        named, state = sess.run([actor["chosen"], actor["new_state"]], feeds)
    return games, named, (named == signs).astype(np.float32)


def act(target, actor, close, coord, seed):
    """Play until the queue is closed."""
    random = np.random.default_rng(seed)
    with coord.stop_on_exception(), tf.Session(target, graph=close.graph) as sess:
        try:
            while True:
                games = play(sess, actor, random)
                sess.run(actor["enqueue"], dict(zip(actor["unroll"], games, strict=True)))
        except tf.errors.CancelledError:
            pass  # the learner has closed it
        except BaseException:
            sess.run(close)  # so that nobody waits for this actor
            raise


def main(target, actors="2", updates="2000"):
    tf.set_random_seed(1)
    actor, learn, close = build()
    coord = tf.train.Coordinator()
    with tf.Session(target) as sess:
        sess.run(tf.global_variables_initializer())
        sess.graph.finalize()
        threads = [
            threading.Thread(target=act, args=(target, actor, close, coord, seed), daemon=True)
            for seed in range(int(actors))
        ]
        for thread in threads:
            thread.start()
        share = 1 / SIGNS  # of games won, a moving average
        try:
            for update in range(1, int(updates) + 1):
                _, won = sess.run(learn)
                share += 0.05 * (won - share)
                if update % 25 == 0:
                    print(f"update {update}: {share:.0%} won", flush=True)
                if share > 0.95:
                    print(f"learned after {update} updates")
                    break
            else:
                print(f"not learned in {updates} updates: {share:.0%} won")
            sess.run(close)
        except tf.errors.OutOfRangeError as error:  # an actor has closed the queue
            coord.request_stop(error)  # which tells the actor's error, that came first
        coord.join(threads)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
